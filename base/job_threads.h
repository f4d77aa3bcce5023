// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace ddprun {

/// Threads for work that may block for as long as a disk, a file server or a name server does. The
/// first one starts with the first job, and usually remains the only one: then jobs run one after
/// the other, in the order of run(). The threads block all signals.
///
/// Destroying it drops the jobs that have not begun and waits for nothing: a job that is stuck is
/// left behind with its thread, so a job has to own all that it uses.
class JobThreads {
 public:
  using Job = std::function<void()>;

  JobThreads() = default;
  JobThreads(JobThreads&&) noexcept = default;
  JobThreads& operator=(JobThreads&& other) noexcept;
  ~JobThreads();

  /// Runs `job`, which must not throw, on one of the threads. Where no thread can be made it runs
  /// at once, in the caller's.
  void run(Job job);

  /// Whether more jobs wait than threads are idle.
  bool is_behind() const;

  /// Adds threads if jobs wait and none has ended since the last call: as many as there are, so
  /// that a few calls are enough for many stuck jobs, and no more than jobs wait.
  void relieve();

  /// Waits until all jobs have ended; false: not before `deadline`.
  bool wait_until_idle(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;

  void leave();

  std::shared_ptr<State> state_;  // nullptr: no job yet
};

}  // namespace ddprun
