// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/call_queue.h"

#include <atomic>
#include <cstddef>
#include <fstream>
#include <latch>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"

namespace ddprun::tests {
namespace {

using ddp::internal::AsyncCall;
using ddp::internal::CallQueue;
using ddp::internal::Task;

constexpr std::size_t kThreads = 3;
constexpr std::size_t kCalls = 40;

/// While this lives, the process can start no thread: stacks would be larger than all memory.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

/// Whether the thread sleeps.
bool does_sleep(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(stat, text);
  return text.find(") S ") != text.npos;
}

/// Makes calls: some block, others are begun and waited for at the end. Returns how many failed.
std::size_t make_calls(CallQueue& queue, std::size_t thread) {
  std::size_t failed = 0;
  const auto count_failure = [&](auto call) {
    try {
      call();
    } catch (const ddp::Error&) {
      ++failed;
    }
  };
  std::vector<std::shared_ptr<AsyncCall>> begun;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Task task{.count = thread * kCalls + i};
    if ((i + thread) % 5 < 2) {
      begun.push_back(queue.begin(task));
    } else {
      count_failure([&] { queue.run(task); });
    }
  }
  for (const auto& call : begun) count_failure([&] { call->wait(); });
  return failed;
}

/// Makes calls in kThreads threads at once. Returns how many failed.
std::size_t make_calls_in_threads(CallQueue& queue, bool with_threads) {
  std::latch begin(1);
  std::vector<std::size_t> failed(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      begin.wait();
      failed[thread] = make_calls(queue, thread);
    });
  }
  std::unique_ptr<NoThreads> refused;
  if (!with_threads) refused = std::make_unique<NoThreads>();
  begin.count_down();
  std::size_t all = 0;
  for (std::thread& thread : threads) thread.join();
  for (const std::size_t of_thread : failed) all += of_thread;
  return all;
}

}  // namespace

TEST_CASE("calls of several threads are done one at a time, in each thread's order") {
  const bool with_threads = GENERATE(true, false);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::size_t> done;  // no lock: the queue is one
    CallQueue queue([&](const Task& task) {
      done.push_back(task.count);
      if (task.count % 8 == 0) std::this_thread::yield();  // others come during a call
    });
    CHECK(make_calls_in_threads(queue, with_threads) == 0);
    REQUIRE(done.size() == kThreads * kCalls);
    std::vector<std::size_t> next(kThreads);
    for (const std::size_t call : done) {
      const std::size_t thread = call / kCalls;
      REQUIRE(call % kCalls == next[thread]++);
    }
  }
}

TEST_CASE("a call that begins when no thread can be started is done after the one under way") {
  std::atomic<pid_t> other = 0;
  std::latch begin(1);
  std::vector<std::size_t> done;
  CallQueue queue([&](const Task& task) {
    begin.count_down(begin.try_wait() ? 0 : 1);
    while (other == 0 || (task.count == 0 && !does_sleep(other))) std::this_thread::yield();
    done.push_back(task.count);
  });
  std::thread thread([&] {
    begin.wait();
    other = ::gettid();
    queue.begin({.count = 1})->wait();
  });
  const NoThreads refused;
  queue.run({.count = 0});
  thread.join();
  CHECK(done == std::vector<std::size_t>{0, 1});
}

TEST_CASE("a call whose turn comes after a begun call finds that one completed") {
  std::atomic<bool> ends = false;
  CallQueue queue([&](const Task& /*task*/) { ends.wait(false); });
  for (int round = 0; round < 100; ++round) {
    ends = false;
    const auto before = queue.begin({});
    std::vector<std::thread> others;  // delay the thread that reports the call as completed
    for (int i = 0; i < 4; ++i) {
      others.emplace_back([&] {
        while (!before->is_completed()) continue;
      });
    }
    ends = true;
    ends.notify_one();
    bool is_completed = false;
    const auto look = [&] {
      is_completed = before->is_completed();
      return true;
    };
    while (!queue.run_if(look, {})) std::this_thread::yield();
    for (std::thread& other : others) other.join();
    REQUIRE(is_completed);
  }
}

TEST_CASE("a thread that waits for a call does it before the queue's thread has woken up") {
  std::thread::id doer;
  CallQueue queue([&](const Task& /*task*/) { doer = std::this_thread::get_id(); });
  int rounds = 0;  // the queue's thread may be faster in some
  do {
    queue.begin({})->wait();
  } while (doer != std::this_thread::get_id() && ++rounds < 10'000);
  CHECK(doer == std::this_thread::get_id());
}

TEST_CASE("after one failure no call of any thread is done") {
  const bool with_threads = GENERATE(true, false);
  for (std::size_t fails = 0; fails < kThreads * kCalls; fails += 29) {
    std::size_t done = 0;
    CallQueue queue([&](const Task& task) {
      if (task.count % 8 == 0) std::this_thread::yield();
      if (done++ == fails) throw ddp::Error(ddp::ErrorKind::system, "the first failure");
    });
    const std::size_t failed = make_calls_in_threads(queue, with_threads);
    CHECK(done == fails + 1);
    CHECK(failed == kThreads * kCalls - fails);
  }
}

}  // namespace ddprun::tests
