// SPDX-License-Identifier: Apache-2.0
#include "base/limited_log.h"

#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "tests/catch.h"

using namespace ddprun;

TEST_CASE("the first lines are written, and then the number of further lines") {
  boost::asio::io_context io;
  std::vector<std::string> written;
  log::set_writer([&](std::string_view line) { written.emplace_back(line); });
  log::LimitedLog limited(io.get_executor(), std::chrono::milliseconds(1));
  for (std::size_t i = 0; i < log::LimitedLog::kLines + 7'400; ++i) limited.warning("a stranger");
  CHECK(written.size() == log::LimitedLog::kLines);
  io.run();
  REQUIRE(written.size() == log::LimitedLog::kLines + 1);
  CHECK(written.back() == "ddprun: and 7400 more lines of this kind within 1 ms\n");

  written.clear();
  limited.warning(std::string(1000, 'x'));
  CHECK(written == std::vector<std::string>{
                       "ddprun: " + std::string(log::LimitedLog::kLength, 'x') + "...\n"});
  io.restart();
  io.run();
  CHECK(written.size() == 1);
  log::set_writer({});
}
