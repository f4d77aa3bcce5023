// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <unordered_map>

#include "base/boot_clock.h"
#include "rendezvous/node.h"

// The arithmetic of leases, from both ends. An agent's lease runs from the moment that it *sent* an
// answered heartbeat. The master's timeout runs from the moment that the heartbeat *came*, a fifth
// of a lease longer. So the agent's workers are killed before the others continue without it. Pure.

namespace ddprun::rendezvous {

/// The time that the master waits for a silent agent: the lease, and the time to kill its workers.
inline BootClock::duration eviction_timeout(std::chrono::milliseconds lease) {
  return lease + lease / 5;
}

/// An agent's lease, and whether the master is silent.
class Lease {
 public:
  using Clock = BootClock;
  using Time = Clock::time_point;
  using milliseconds = std::chrono::milliseconds;

  /// The master's settings, for each new connection; zero: no heartbeats, and a lease without end.
  void configure(milliseconds heartbeat, milliseconds lease) {
    heartbeat_ = heartbeat;
    length_ = lease;
    unanswered_.clear();
  }

  /// The pause between two heartbeats; zero: none are sent.
  milliseconds heartbeat() const { return heartbeat_; }

  void heartbeat_sent(Time now) { unanswered_.push_back(now); }

  /// Returns when the heartbeat was sent that is answered now; nullopt: none was unanswered.
  std::optional<Time> heartbeat_answered();

  /// The end of a lease that a message sent at `sent` has renewed; nullopt: never.
  std::optional<Time> end(Time sent) const;

  /// A message of the master came.
  void received(Time now) { received_ = now; }
  Time last_received() const { return received_; }

  /// Whether two heartbeats have no answer: no load of a healthy master explains that.
  bool is_silent(Time now) const {
    return heartbeat_ > milliseconds::zero() && now - received_ > 2 * heartbeat_;
  }

 private:
  milliseconds heartbeat_{0};
  milliseconds length_{0};
  Time received_{};
  std::deque<Time> unanswered_;  ///< heartbeats, by when they were sent
};

/// The master's view: nodes that are lost when they are silent for longer than the timeout.
class EvictionQueue {
 public:
  using Clock = Lease::Clock;
  using Time = Lease::Time;

  explicit EvictionQueue(Clock::duration timeout) : timeout_(timeout) {}

  void add(NodeId node, Time now);

  /// Does nothing if the node is not in the queue.
  void remove(NodeId node);

  bool contains(NodeId node) const { return entries_.contains(node); }
  bool empty() const { return order_.empty(); }

  /// A message of `node` came; does nothing if the node is not in the queue.
  void received(NodeId node, Time now);

  /// Counts as if a message of every node had come.
  void all_received(Time now);

  /// When the first node is overdue; nullopt: the queue is empty.
  std::optional<Time> next() const;

  /// The time of the last message of `node`; `now` if it is not in the queue.
  Time last_received(NodeId node, Time now) const;

  struct Overdue {
    NodeId node;
    Clock::duration silent_for;
  };
  /// The node that is silent for longest, if that is too long; the caller removes it.
  std::optional<Overdue> overdue(Time now) const;

 private:
  struct Entry {
    NodeId node;
    Time received;
  };
  Clock::duration timeout_;
  std::list<Entry> order_;  ///< the one silent for longest first
  std::unordered_map<NodeId, std::list<Entry>::iterator> entries_;
};

}  // namespace ddprun::rendezvous
