// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/failure/watched_group.h"

namespace ddp::internal {

/// Finds calls of this process that time out, in any group, and ends them. It agrees with the other
/// ranks of the group on an error that says at which call each rank is, and notifies them through
/// the broadcast. It aborts every group of the process, since a call of another group may wait for
/// the same lost rank. Ranks that receive the broadcast abort their groups with the same error. The
/// same happens when a call loses a rank, and when a backend reports a failure outside of a call.
///
/// If that takes too long, or calls do not end, the process exits with code 124: a rank that hangs
/// in a library would keep the whole job from being restarted.
///
/// There is one thread per process, while a group of more than one rank exists. It sleeps until a
/// call may have timed out. While several asynchronous calls are under way in one group, it checks
/// every second (more often with short limits) which of them is the first: a library knows whether
/// a call has ended, not when.
/// whether a call has ended, not when.
///
/// Thread: any, several at once.
class Watchdog {
 public:
  using Time = WatchedGroup::Time;

  /// The watchdog of this process, which lives as long as it is referenced.
  static std::shared_ptr<Watchdog> of_process();

  Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Waits for its threads, so it must not run in one of them.
  ~Watchdog();

  void add(const std::shared_ptr<WatchedGroup>& group);

  /// Checks the groups at `when` at the latest.
  void check_by(Time when);

  /// `group` has failed. Notifies the other ranks before it returns, since the program may leave
  /// the group next. Breaks all groups that exist now, in another thread.
  void on_failure(const std::shared_ptr<WatchedGroup>& group, const Error& error);
  /// Does both in another thread.
  void on_failure_async(const std::shared_ptr<WatchedGroup>& group, const Error& error);

  /// Another rank has raised the broadcast for the group with this prefix. Breaks all groups.
  /// `joined` is the group in which the ranks joined.
  void on_broadcast(const GroupContext& joined, const std::string& prefix);

  /// ddprun has reported lost workers: one rank, or, if it is -1, others. Breaks all groups.
  void on_loss(int lost, const std::string& sentence);

 private:
  /// All groups are being broken, from enter_abort() until their calls have ended.
  struct Abort {
    std::string reason;
    std::chrono::milliseconds limit;
    Time deadline;    // then the process ends
    int threads = 0;  // between enter_abort() and leave_abort()
  };

  using Groups = std::vector<std::shared_ptr<WatchedGroup>>;

  Groups groups();
  void run();
  void check_groups();
  void start_thread(const std::function<void()>& work);
  void enter_abort(const std::string& reason);
  void leave_abort();
  void break_groups(const Groups& groups, const AgreedError& agreed);
  void fail_groups(const Groups& groups, const AgreedError& agreed);
  void abort_groups(const Groups& groups);
  void check_abort();

  std::atomic<Time> next_check_ = Time::max();
  std::mutex mutex_;  // protects what follows, and every change of next_check_
  std::condition_variable changed_;
  std::vector<std::weak_ptr<WatchedGroup>> groups_;
  std::optional<Abort> abort_;
  bool stopping_ = false;
  std::vector<std::thread> abort_threads_;
  std::thread thread_;
};

}  // namespace ddp::internal
