// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"
#include "collectives/call/async_call.h"
#include "collectives/failure/flight_recorder.h"
#include "ddp/error.h"

namespace ddp::internal {

class FailureBroadcast;
class Watchdog;

/// What this rank calls in one group: numbers it, has it recorded and watched, and keeps the first
/// failure, which every later call meets.
///
/// Calls of all ranks are numbered from 1, which is the same on all of them, and are done in their
/// order: the time of one begins when those before it are over. Calls between two ranks are counted
/// apart, each rank its own, and their time begins with them.
///
/// Thread: any, several at once.
class GroupCalls : public std::enable_shared_from_this<GroupCalls> {
 public:
  using Ticket = FlightRecorder::Ticket;
  using Time = FlightRecorder::Time;

  /// A call that took too long.
  struct Overdue {
    Call call;
    std::chrono::milliseconds limit;
  };

  GroupCalls(GroupContext context, const std::string& backend_name);
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;
  ~GroupCalls();

  /// From now on `watchdog` watches, and may abort `backend`.
  void begin_watch(Backend& backend, std::shared_ptr<Watchdog> watchdog,
                   std::shared_ptr<FailureBroadcast> broadcast);
  /// Before the backend ends. Not in a thread of the watchdog's or the broadcast's.
  void end_watch();

  /// How long each call may take that begins from now on.
  void set_limit(std::chrono::milliseconds limit);
  std::chrono::milliseconds limit() const { return limit_; }
  const std::shared_ptr<FailureBroadcast>& broadcast() const { return broadcast_; }

  /// A call begins. Throws the failure of the group.
  Ticket begin(const Task& task);

  /// It is over. What a call throws is the group's failure, which is returned: the first.
  void succeed(Ticket ticket);
  Error fail(Ticket ticket, const Error& error);

  /// As `async`, and tells us when somebody sees it over.
  std::shared_ptr<AsyncCall> follow(Ticket ticket, std::shared_ptr<AsyncCall> async);

  /// The group is broken by something else than a call. The failure it has then. A rank that is
  /// lost is so to all groups: the watchdog breaks them, and tells the other ranks.
  Error fail(const Error& error);
  bool has_failed() const;

  // What follows is for the watchdog.

  const GroupContext& context() const { return context_; }

  /// Closes what is over, and says when to look again; Time::max() where nothing is under way.
  Time look(Time now);
  /// Once, and not after a failure.
  std::optional<Overdue> find_overdue(Time now);
  bool has_calls() const;

  /// Where this rank is, as call_status.h has it, for the others to see in the store.
  void publish_status() const;

  /// The agreed error on a call that took too long: asks the other ranks where they are, and
  /// decides with them. Does not throw: without the store it says what this rank knows.
  AgreedError judge(const Overdue& overdue);

  /// Raises the broadcast about the group's failure, and gives the agreed error on it. Does not
  /// throw: where the store is lost, nobody is told.
  AgreedError tell_others(const Error& error);

  /// Breaks the group with the agreed error, or the group's own if it has one, but for the calls
  /// that are under way: those end with abort(), without a word.
  void give_up(const AgreedError& agreed);
  void abort() noexcept;

 private:
  struct Open {
    Ticket ticket;
    Call call;
    std::chrono::milliseconds limit;
    Time since;
    std::shared_ptr<AsyncCall> async;  ///< null: a thread is in it
  };
  using Opens = std::deque<Open>;

  std::optional<Error> note(const Error& error);
  void spread(const Error& error);
  std::shared_ptr<Watchdog> watchdog() const;
  Call call_of(const Task& task);
  Opens::iterator close(Opens& line, const Opens::iterator& open, bool well, Time now);
  void close(Ticket ticket, bool well);
  std::optional<Error> close_completed(Time now);
  Time next_look(Time now) const;
  std::map<int, std::string> ask_statuses() const;
  std::string where() const;

  const GroupContext context_;
  FlightRecorder& recorder_ = FlightRecorder::of_process();
  const int group_;
  std::atomic<std::chrono::milliseconds> limit_;

  std::mutex broadcast_mutex_;  // held while it is raised
  std::shared_ptr<FailureBroadcast> broadcast_;

  std::mutex backend_mutex_;  // held while it is aborted
  Backend* backend_ = nullptr;

  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<Watchdog> watchdog_;
  std::optional<Error> failure_;
  std::uint64_t calls_so_far_ = 0;
  std::uint64_t messages_so_far_ = 0;
  std::optional<Call> last_;  // of all ranks, and done
  bool judged_ = false;       // a call was overdue
  Opens calls_;
  Opens messages_;
};

}  // namespace ddp::internal
