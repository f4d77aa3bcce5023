// SPDX-License-Identifier: Apache-2.0
#include "base/async_jobs.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// Runs the loop until `condition`; fails after a minute.
template <class Condition>
void run_until(boost::asio::io_context& context, Condition condition) {
  context.restart();
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) FAIL("timed out");
    context.run_one_until(deadline);
  }
}

}  // namespace

TEST_CASE("a job's result comes back on the loop's thread, and an idle loop ends") {
  boost::asio::io_context context;
  AsyncJobs jobs(context.get_executor());
  std::vector<std::string> results;
  for (const std::string text : {"one", "two"}) {
    jobs.run(
        [text, loop = std::this_thread::get_id()] {
          return std::this_thread::get_id() == loop ? "not on a thread" : text;
        },
        [&results, loop = std::this_thread::get_id()](const std::string& result) {
          CHECK(std::this_thread::get_id() == loop);
          results.push_back(result);
        });
  }
  CHECK(results.empty());
  context.run();
  CHECK(results == std::vector<std::string>{"one", "two"});
}

TEST_CASE("a stuck job does not hold up the other jobs") {
  boost::asio::io_context context;
  AsyncJobs jobs(context.get_executor());
  std::promise<void> go;
  std::vector<int> ended;
  const auto end = [&ended](int number) { ended.push_back(number); };
  jobs.run([&go] { return go.get_future().wait(), 0; }, end);
  for (int number = 1; number <= 20; ++number) jobs.run([number] { return number; }, end);
  run_until(context, [&] { return ended.size() == 20; });
  CHECK(ended.front() != 0);
  go.set_value();
  run_until(context, [&] { return ended.size() == 21; });
  CHECK(ended.back() == 0);
}

TEST_CASE("waiting after the loop delivers the results of all jobs, also of jobs begun then") {
  boost::asio::io_context context;
  AsyncJobs jobs(context.get_executor());
  int result = 0;
  jobs.run(
      [] { return 1; },
      [&](int one) { jobs.run([one] { return one + 1; }, [&result](int two) { result = two; }); });
  CHECK(jobs.wait_until_idle(std::chrono::steady_clock::now() + 60s));
  CHECK(result == 2);

  std::promise<void> go;
  jobs.run([&go] { return go.get_future().wait(), 3; }, [&result](int three) { result = three; });
  CHECK_FALSE(jobs.wait_until_idle(std::chrono::steady_clock::now()));
  CHECK(result == 2);
  go.set_value();
  CHECK(jobs.wait_until_idle(std::chrono::steady_clock::now() + 60s));
  CHECK(result == 3);
}

TEST_CASE("a result may destroy the jobs, and no further result comes") {
  boost::asio::io_context context;
  auto jobs = std::make_unique<AsyncJobs>(context.get_executor());
  int results = 0;
  for (int i = 0; i < 3; ++i) {
    jobs->run([] { return 0; },
              [&](int) {
                ++results;
                jobs.reset();
              });
  }
  context.run();
  CHECK(results == 1);
}

TEST_CASE("a discarded value is destroyed on a thread") {
  boost::asio::io_context context;
  AsyncJobs jobs(context.get_executor());
  std::optional<std::thread::id> destroyed_on;
  const auto note = [&destroyed_on](int* value) {
    destroyed_on = std::this_thread::get_id();
    delete value;
  };
  std::shared_ptr<int> value(new int, note);
  jobs.discard(std::move(value));
  context.run();
  REQUIRE(destroyed_on);
  CHECK(*destroyed_on != std::this_thread::get_id());
}
