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

#include "collectives/backends/agreed_error.h"
#include "collectives/failure/group_calls.h"

namespace ddp::internal {

/// Sees calls of this process that take too long, in any group, and ends them: asks the other ranks
/// where they are, makes a sentence of it the group's agreed error, tells everyone through the
/// broadcast, and aborts every group of the process, since whoever waits in another group for a
/// rank that is gone would wait for ever. Ranks that hear the broadcast do the same with the same
/// agreed. So do those that lose another rank in a call, or whose backend tells of a failure that
/// no call has seen yet.
///
/// If that takes too long, or calls do not end, the process does, with kExitCode: a rank that hangs
/// in a library keeps the whole job from starting anew.
///
/// One quiet thread, from the first group of more than one rank to the last. It sleeps until a call
/// may be overdue; while several calls are under way in one group it looks every second (more often
/// where limits are short) which of them is the first, for a library tells whether a call is over,
/// not when.
///
/// Thread: any, several at once.
class Watchdog {
 public:
  using Time = GroupCalls::Time;

  static constexpr int kExitCode = 124;  // as timeout(1) ends

  static std::shared_ptr<Watchdog> of_process();

  Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Not in a thread that fails groups.
  ~Watchdog();

  void add(const std::shared_ptr<GroupCalls>& group);

  /// Looks at `when`, at the latest.
  void look_at(Time when);

  /// `group` has failed: tells the other ranks in this thread, as the program may leave the group
  /// then, and breaks all groups that there are now, soon.
  void spread(const std::shared_ptr<GroupCalls>& group, const Error& error);
  /// The same in another thread.
  void spread_aside(const std::shared_ptr<GroupCalls>& group, const Error& error);

  /// Another rank has raised the broadcast about the group with this prefix. Breaks all groups.
  void hear(Store& store, const std::string& prefix);

  /// ddprun says that workers are gone. Breaks all groups.
  void hear_loss(const std::string& sentence);

 private:
  /// Groups are being failed.
  struct Emergency {
    std::string why;
    std::chrono::milliseconds bound;
    Time end;
    int actors = 0;  // begin_emergency() without end_part()
  };

  using Groups = std::vector<std::shared_ptr<GroupCalls>>;

  Groups groups();
  void run();
  void look();
  void help(std::function<void()> work);
  void begin_emergency(const std::string& why);
  void end_part();
  void fail_all(const Groups& groups, const AgreedError& agreed);
  void check_emergency();
  [[noreturn]] static void end_process(const Emergency& emergency);

  std::atomic<Time> looks_at_ = Time::max();
  std::mutex mutex_;  // of what follows, and of every change of looks_at_
  std::condition_variable changed_;
  std::vector<std::weak_ptr<GroupCalls>> groups_;
  std::optional<Emergency> emergency_;
  bool ends_ = false;
  std::vector<std::thread> helpers_;
  std::thread thread_;
};

}  // namespace ddp::internal
