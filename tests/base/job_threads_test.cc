// SPDX-License-Identifier: Apache-2.0
#include "base/job_threads.h"

#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <pthread.h>
#include <thread>
#include <vector>

#include "tests/catch.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + 60s;
}

/// A job that is stuck until it is released. Copies are the same job.
class StuckJob {
 public:
  void operator()() const {
    begun_->set_value();
    go_.wait();
  }
  void wait_until_begun() const { begun_->get_future().wait(); }
  void let_go() const { let_go_->set_value(); }

 private:
  std::shared_ptr<std::promise<void>> begun_ = std::make_shared<std::promise<void>>();
  std::shared_ptr<std::promise<void>> let_go_ = std::make_shared<std::promise<void>>();
  std::shared_future<void> go_ = let_go_->get_future().share();
};

}  // namespace

TEST_CASE("jobs run on one thread, in their order") {
  JobThreads threads;
  CHECK(threads.wait_until_idle(soon()));
  std::vector<int> order;
  std::vector<std::thread::id> ran_on;
  for (int i = 0; i < 1000; ++i) {
    threads.run([&, i] {
      order.push_back(i);
      ran_on.push_back(std::this_thread::get_id());
    });
  }
  REQUIRE(threads.wait_until_idle(soon()));
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  CHECK(ran_on == std::vector(1000, ran_on.front()));
  CHECK(ran_on.front() != std::this_thread::get_id());
}

TEST_CASE("the threads block signals, except those of their own errors") {
  JobThreads threads;
  sigset_t blocked;
  threads.run([&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); });
  REQUIRE(threads.wait_until_idle(soon()));
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD, SIGPIPE}) CHECK(sigismember(&blocked, signal));
  CHECK_FALSE(sigismember(&blocked, SIGSEGV));
}

TEST_CASE("stuck jobs cause more threads, and the others run") {
  JobThreads threads;
  std::vector<StuckJob> stuck(5);
  for (const StuckJob& job : stuck) threads.run(job);
  bool ran = false;
  threads.run([&ran] { ran = true; });
  stuck[0].wait_until_begun();
  CHECK(threads.is_behind());
  CHECK_FALSE(threads.wait_until_idle(std::chrono::steady_clock::now()));

  threads.relieve();  // to two threads, then to four
  stuck[1].wait_until_begun();
  threads.relieve();
  for (size_t i = 2; i < 4; ++i) stuck[i].wait_until_begun();
  threads.relieve();  // to six: no more than two jobs wait
  stuck[4].wait_until_begun();
  for (const StuckJob& job : stuck) job.let_go();
  REQUIRE(threads.wait_until_idle(soon()));
  CHECK(ran);
  CHECK_FALSE(threads.is_behind());
}

TEST_CASE("a stuck job is left behind, and jobs that have not begun are dropped") {
  const StuckJob stuck;
  std::promise<void> ended;
  const auto dropped = std::make_shared<int>();
  {
    JobThreads threads;
    threads.run([stuck, &ended] {
      stuck();
      ended.set_value();
    });
    stuck.wait_until_begun();
    threads.run([dropped] { ++*dropped; });
  }
  CHECK(dropped.use_count() == 1);
  stuck.let_go();
  ended.get_future().wait();
  CHECK(*dropped == 0);
}
