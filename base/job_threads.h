// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace ddprun {

/// Threads for work that may block for as long as a disk, a file server or a name server does. The
/// first job starts the first thread. Usually it remains the only one, and jobs run one after the
/// other, in the order of run(). The threads block all signals.
///
/// The destructor drops the jobs that have not begun and waits for nothing. A job that is stuck is
/// left behind with its thread, so a job must own all that it uses.
class JobThreads {
 public:
  using Job = std::function<void()>;

  JobThreads() = default;
  JobThreads(JobThreads&&) noexcept = default;
  JobThreads& operator=(JobThreads&& other) noexcept;
  ~JobThreads();

  /// Runs `job`, which must not throw, on one of the threads. If no thread can be started, it runs
  /// at once in the caller's thread.
  void run(Job job);

  /// Whether more jobs wait than threads are idle.
  bool is_behind() const;

  /// Adds threads if jobs wait and no job has ended since the last call. It doubles their number,
  /// so that a few calls are enough for many stuck jobs, but adds no more than jobs wait.
  void relieve();

  /// Waits until all jobs have ended; false: `deadline` passed first.
  bool wait_until_idle(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;

  void leave();

  std::shared_ptr<State> state_;  // nullptr: no job yet
};

}  // namespace ddprun
