// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "launcher/kernel/descendants.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/signal_catchers.h"
#include "launcher/process/spawn.h"
#include "launcher/process/worker.h"

namespace ddprun::launcher {

/// How one worker ended.
struct WorkerEnd {
  int local_rank;
  pid_t pid;
  ExitStatus status;
  std::chrono::steady_clock::duration ran;
  bool stopped;                       ///< WorkerGroup signalled it before it ended
  std::optional<Error> exec_failure;  ///< why the program was never executed
};

/// The workers of one round on this node and all their descendants, from the start until no
/// descendant is left. Only one group at a time may exist, in a process that is a child subreaper.
///
/// Descendants that outlive their worker are called orphans, whether or not they left its process
/// group. The destructor kills the workers that still run. Thread: the executor's.
class WorkerGroup {
 public:
  struct Hooks {
    std::function<void(const WorkerEnd&)> worker_ended;  ///< once for each worker, immediately
    /// The grace has passed, and these workers, and these processes, got SIGKILL.
    std::function<void(const std::vector<int>& local_ranks, const std::vector<Descendant>&)> killed;
    std::function<void()> all_ended;  ///< once, when no descendant is left
    /// These orphans still run a second after all workers ended without stop(), and are stopped.
    std::function<void(const std::vector<Descendant>& orphans)> stopping_orphans;
    /// It has ended, but its tracer holds it: until that lets it go, the kernel does not say how.
    std::function<void(int local_rank)> worker_held = {};
    /// `signal` has stopped the worker: SIGSTOP, SIGTTIN ... Called from child_changed.
    std::function<void(int local_rank, pid_t pid, int signal)> worker_stopped = {};
    /// A stopped worker was continued. Called from child_changed.
    std::function<void(int local_rank, pid_t pid)> worker_continued = {};
  };

  /// `grace` is the time between the first signal and SIGKILL; 0: SIGKILL immediately.
  WorkerGroup(boost::asio::any_io_executor executor, std::chrono::milliseconds grace, Hooks hooks);

  /// Starts all workers, local rank 0 first. Call it once. Returns their pids and output pipes.
  /// Errors: system; workers that were already started run until stop().
  Result<std::vector<Child>> start(std::vector<Command> commands);

  /// Takes over workers that were forked, in place of start(). They began at `started`.
  void adopt(std::vector<Child>& children, std::chrono::steady_clock::time_point started);

  /// Sends `signal` to the processes of each worker that signal_targets() chooses, or to its whole
  /// group. The worker's other processes get it when the worker has ended, or if the worker still
  /// runs a moment after the chosen ones have ended. SIGKILL follows after the grace. A second call
  /// kills immediately. When no worker runs any more, orphans get SIGTERM, within the same grace.
  /// So do orphans that are left a second after the last worker has ended without stop().
  /// all_ended follows.
  void stop(int signal, bool to_whole_groups = false);

  /// Sends `signal` to one worker's group. False: there is no such local rank, or it has ended.
  bool signal(int local_rank, int signal);

  /// Call at each SIGCHLD: reaps orphans, and finds workers that were stopped or continued.
  void child_changed();

  /// How many workers were started.
  int size() const { return static_cast<int>(members_.size()); }

  /// Whether everything that still runs got SIGKILL.
  bool is_killing() const { return stop_signal_ == SIGKILL; }

  /// Local ranks that were killed after the grace.
  const std::vector<int>& killed() const { return killed_; }

  /// Local ranks whose process still runs.
  std::vector<int> running() const;

  /// The process of a local rank that still runs.
  pid_t pid_of(int local_rank) const {
    return members_[static_cast<size_t>(local_rank)].worker.pid();
  }

 private:
  /// Processes that got the signal in place of their worker, and have not ended.
  struct Deputies {
    std::vector<boost::asio::posix::stream_descriptor> pidfds;
    boost::asio::steady_timer moment;
  };

  struct Member {
    Worker worker;
    std::chrono::steady_clock::time_point started;
    bool stopped = false;                          ///< it was alive when stop() signalled it
    std::shared_ptr<Deputies> deputies = nullptr;  ///< handlers check that they still exist
  };

  void tell_guardian() const;
  void on_worker_ended(int local_rank, ExitStatus status);
  void find_stopped();
  void find_continued();
  void finish_or_stop_orphans();
  void let_orphans_end();
  void begin_stop(int signal, bool to_whole_groups);
  void signal_first(Member& member, std::vector<SignalCatchers::Process> catchers);
  void wait_for_deputies(Member& member);
  void signal_rest_soon(Member& member);
  void kill_now();
  void stop_orphans();
  void signal_orphans();
  void retry_orphans();
  std::set<pid_t> running_pids() const;

  boost::asio::any_io_executor executor_;
  std::chrono::milliseconds grace_;
  Hooks hooks_;
  std::optional<SpawnBatch> batch_;  // outlives the members, which may not have called exec yet;
                                     // nullopt: they were forked
  std::deque<Member> members_;       // a deque, because a waiting Worker must not move
  int running_ = 0;
  bool ended_ = false;
  bool asked_ = false;                // stop() was called
  bool had_time_ = false;             // orphans had time to end by themselves
  int stop_signal_ = 0;               // 0: not stopping
  std::set<pid_t> orphaned_groups_;   // groups of an ended worker that still have processes
  std::set<pid_t> signalled_groups_;  // these groups and these orphans got stop_signal_
  std::set<pid_t> signalled_orphans_;
  std::vector<int> killed_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer retry_;
  std::chrono::milliseconds retry_pause_{100};
};

}  // namespace ddprun::launcher
