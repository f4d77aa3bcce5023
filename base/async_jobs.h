// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/job_threads.h"

namespace ddprun {

/// Runs work that may block (see JobThreads) for a program with an event loop; results come back as
/// handlers. If a job is stuck, the others wait for some milliseconds; then they get threads of
/// their own. So if the order of two jobs matters, begin the second only when the first has ended.
///
/// The destructor drops the results that are still to come and waits for nothing. Thread: the
/// executor's.
class AsyncJobs {
 public:
  explicit AsyncJobs(boost::asio::any_io_executor executor)
      : executor_(executor),
        ended_event_(executor),
        relief_(executor),
        alive_(std::make_shared<char>()) {}
  AsyncJobs(const AsyncJobs&) = delete;

  /// Runs `job` on a thread, then `done` with its result, from the executor. The job must not throw
  /// and owns all that it uses.
  template <class Job, class Done>
  void run(Job job, Done done) {
    using Value = decltype(job());
    auto value = std::make_shared<std::optional<Value>>();
    begin([value, job = std::move(job)]() mutable { value->emplace(job()); },
          [value, done = std::move(done)]() mutable { done(std::move(**value)); });
  }

  /// Runs `job`, which has no result, on a thread.
  void run(std::function<void()> job) {
    begin(std::move(job), [] {});
  }

  /// Destroys `value` on a thread: to close a file may block.
  template <class Value>
  void discard(Value value) {
    run([value = std::move(value)] {});
  }

  /// Waits until every job has ended, also those that `done` functions begin, and calls these
  /// functions. For use after the loop has ended. False: `deadline` passed first.
  bool wait_until_idle(std::chrono::steady_clock::time_point deadline);

 private:
  struct Ended;

  void begin(std::function<void()> job, std::function<void()> done);
  bool make_event();
  void wait();
  void deliver();
  void relieve_soon();

  boost::asio::any_io_executor executor_;
  JobThreads threads_;
  std::shared_ptr<Ended> ended_;                       // shared with the threads
  boost::asio::posix::stream_descriptor ended_event_;  // readable when a job has ended
  boost::asio::steady_timer relief_;
  std::map<std::size_t, std::function<void()>> done_;  // for each job under way, by number
  std::size_t next_ = 0;
  bool waiting_ = false;  // for ended_event_
  bool relieving_ = false;
  std::shared_ptr<char> alive_;  // queued handlers check that it still exists
};

}  // namespace ddprun
