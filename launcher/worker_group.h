// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "launcher/descendants.h"
#include "launcher/exit_status.h"
#include "launcher/spawn.h"
#include "launcher/worker.h"

namespace ddprun::launcher {

/// How one worker ended.
struct WorkerEnd {
  int local_rank;
  pid_t pid;
  ExitStatus status;
  std::chrono::steady_clock::duration ran;
  bool stopped;                       ///< it ended after we had told it to; not before by itself
  std::optional<Error> exec_failure;  ///< it never became the program: why
};

/// The workers of one round on this node, and all they fork: from the first start until nothing
/// of them is left. Ask for one at a time, in a process that is a child subreaper.
///
/// Destroying it kills the workers that still run.
/// Thread: the executor's.
class WorkerGroup {
 public:
  struct Hooks {
    std::function<void(const WorkerEnd&)> worker_ended;  ///< once for each worker, at once
    /// The grace is over: these are killed now. Empty: only what workers had left behind.
    std::function<void(const std::vector<int>& local_ranks)> killing;
    std::function<void()> all_ended;  ///< once, when no descendant is left
  };

  /// `grace` is the time between a signal and SIGKILL whenever processes are stopped; 0 kills at
  /// once.
  WorkerGroup(boost::asio::any_io_executor executor, std::chrono::milliseconds grace, Hooks hooks);

  /// Starts all workers, local rank 0 first; once. Gives their pids and the pipes of their output.
  /// Errors: system; what was started before goes on, and stop() ends it.
  Result<std::vector<Child>> start(const std::vector<Command>& commands);

  /// Sends `signal` to every worker's group; what outlives the grace is killed. A second call
  /// kills at once. all_ended follows, also for processes that left their worker's group or
  /// outlived it: these get SIGTERM once no worker runs, within the same grace. What is left
  /// behind when the last worker ends by itself is stopped in the same way.
  void stop(int signal);

  /// Sends `signal` to each worker itself and changes nothing else.
  void forward(int signal);

  /// To be called at each SIGCHLD: an orphan we inherited may have ended.
  void child_changed();

  /// Local ranks that had to be killed after the grace.
  const std::vector<int>& killed() const { return killed_; }

  /// Local ranks whose process still runs.
  std::vector<int> running() const;

 private:
  struct Member {
    Worker worker;
    std::chrono::steady_clock::time_point started;
    bool stopped = false;  ///< it lived when it was told to stop
  };

  void on_worker_ended(int local_rank, ExitStatus status);
  void end_or_sweep();
  void begin_stop(int signal);
  void kill_now();
  void stop_strays();
  void signal_strays();
  std::set<pid_t> running_pids() const;

  boost::asio::any_io_executor executor_;
  std::chrono::milliseconds grace_;
  Hooks hooks_;
  std::optional<SpawnBatch> batch_;  // outlives the members, who may still be on it
  std::deque<Member> members_;       // a deque: workers must not move while they are waited for
  int running_ = 0;
  bool ended_ = false;
  int stop_signal_ = 0;          // 0: not stopping
  std::set<pid_t> left_behind_;  // groups whose leader has ended and that are not empty
  std::set<pid_t> told_groups_;  // groups and single processes that got stop_signal_
  std::set<pid_t> told_processes_;
  std::vector<int> killed_;
  boost::asio::steady_timer deadline_;
};

}  // namespace ddprun::launcher
