// SPDX-License-Identifier: Apache-2.0
#include "base/wait_reporter.h"

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"

using ddprun::WaitReporter;

TEST_CASE("a wait that has ended is not reported, even if its time had come before") {
  boost::asio::io_context io;
  const std::chrono::seconds at_once(0);
  WaitReporter one(io.get_executor(), at_once);
  WaitReporter other(io.get_executor(), at_once);
  int reports = 0;
  const auto report = [&](std::chrono::seconds) {
    ++reports;
    one.end();
    other.end();
  };
  one.begin(report);
  other.begin(report);
  io.run();
  CHECK(reports == 1);
}

TEST_CASE("a wait is reported again until it ends") {
  boost::asio::io_context io;
  WaitReporter wait(io.get_executor(), std::chrono::seconds(0));
  int reports = 0;
  wait.begin([&](std::chrono::seconds) {
    CHECK(wait.is_under_way());
    if (++reports == 3) wait.end();
  });
  io.run();
  CHECK_FALSE(wait.is_under_way());
  CHECK(reports == 3);
}
