// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/boot_clock.h"
#include "rendezvous/blame/suspect.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"
#include "rendezvous/prior_round.h"
#include "rendezvous/round/node_losses.h"
#include "rendezvous/round/restart_budget.h"

// DECIDES who takes part in a round, when to regroup, and when the job is over. The only place that
// counts restarts. Pure: it reads no clock and sends nothing; the caller delivers the notifications
// in their order and calls `tick` when `deadline` has come.
//
// clang-format off
//   forming ──complete──▶ active ──all finished──────────────────▶ closed
//    │ ▲  │                 │ │                                     ▲ ▲ ▲
//    │ │  └─timed out───────┼─┼─────────────────────────────────────┘ │ │
//    │ └────────regroup─────┘ └─no restart left──▶ ending ──all back──┘ │
//    └─an earlier master's round failed, none left─▶ └──join_timeout────┘
//
//  event \ phase   | forming               | active                     | ending                | closed
//  ----------------+-----------------------+----------------------------+-----------------------+-------
//  join, member    | x                     | its workers are lost;      | x                     | Closed
//                  |                       |  regroup: > forming        |                       |
//  join, returning | waiting;              | as others;                 | WorkerExits are added;| Closed
//                  |  complete: > active   |  regroup: > forming        |  all back: > closed   |
//  join, others    | waiting, or held;     | waiting (a spare), or held;| waiting, or held;     | Closed
//                  |  complete: > active;  |  room and none finished,   |  all back: > closed   |
//                  |  prior failure, none  |  regroup: > forming;       |                       |
//                  |  left: > ending,      |  prior failure, none left: |                       |
//                  |  all back: > closed   |  > ending                  |                       |
//  fail            | - (a consequence)     | restart left, regroup:     | - (a consequence)     | -
//                  |                       |  > forming;                |                       |
//                  |                       |  none left: > ending       |                       |
//  succeed         | - (too late)          | finished;                  | -                     | -
//                  |                       |  all finished: > closed    |                       |
//  leave           | returning: leaving;   | as while forming;          | as while forming      | -
//                  |  waiting: forgotten   |  running: leaving,         |                       |
//                  |                       |  regroup: > forming        |                       |
//  vanish          | forgotten;            | forgotten; was running,    | forgotten;            | -
//                  |  complete: > active   |  regroup: > forming;       |  all back: > closed   |
//                  |                       |  again, none left:         |                       |
//                  |                       |  > ending                  |                       |
//  tick            | held long enough:     | held long enough: waiting; | join_timeout is over: | -
//                  |  waiting;             |  room and none finished,   |  > closed             |
//                  |  complete: > active;  |  regroup: > forming        |                       |
//                  |  too late: > closed;  |                            |                       |
//                  |  prior failure, none  |                            |                       |
//                  |  left: > ending,      |                            |                       |
//                  |  all back: > closed   |                            |                       |
// clang-format on
//
// "> X" is a change of phase, a dash a deliberate "nothing to do", x an event that cannot happen. A
// join that is refused changes nothing. tests/rendezvous/round/transcripts_test.cc holds the table
// against the code.
//
// A member is a node that is running or finished. "Too late" closes with TimedOut, "all finished"
// with Succeeded, the end of `ending` with Failed. A regroup notifies all members and makes them
// returning; if none is left, spares may form the next round at once. "All back": no node is
// returning or leaving.
//
// A round is complete when min_nodes wait, and
// - no node of the round before is still stopping its workers, to come back or to leave (or
//   join_timeout is over: it starts without those), and
// - the same holds for the last round of an earlier master, which nodes report when they join: as
//   many of its nodes have joined as it had, or a lease has passed since this master began, and
// - the pause after a restart is over (--restart_backoff), and
// - max_nodes wait, or a member of an earlier round does, or all of an earlier master's round do,
//   or the last call is over, which began when min_nodes were waiting.
// So no round waits for a lost node while min_nodes are left. If more than max_nodes wait, members
// of the latest round go first, then of earlier ones, then the order of joining; the others are
// spares.
//
// A regroup costs no restart by itself. But a node that is lost again soon after it came back from
// its last loss costs one, as a failure does, and is held back for a while (node_losses): otherwise
// a node that comes and goes would keep the others from working, for free.
//
// `fail` and `succeed` count only from a member of that round whose workers have not been stopped:
// a later report is of a consequence, not a cause. The node of that worker reports the failure
// again, in words, when it joins again.
//
// If an earlier master died before it could act on a failure in its last round, this failure is a
// "prior failure". The nodes that know of it report it when they join. It is counted once, when all
// nodes of that round are back or a lease is over: another node may report a later round or a
// higher count of restarts, which makes it old news. An elected master does not count it: workers
// fail when the node of the master before is lost.
//
// A job that fails ends in two steps, so that all nodes end with the same full report: its members
// stop their workers and join again with their WorkerExits. The master answers them together.
//
// Node ranks: --node_rank if given, else a node keeps its rank, and new nodes take the lowest free
// ones in order of joining; a node on the rendezvous host takes 0. When the round shrinks, nodes
// above the new size move into the gaps, so that ranks stay dense.

namespace ddprun::rendezvous {

/// To a node that takes part: start your workers.
struct Ready {
  Layout layout;
  std::string suspect = {};  ///< Failed::suspect of the round before, which failed
};

/// To a node of a round that is over: stop your workers, then join again.
struct Broken {
  std::string reason;                 ///< "node 1 (gpu-08) is gone: connection closed"
  std::optional<Failure> root_cause;  ///< a worker failed; nullopt: only the membership changed
  int restarts = 0;                   ///< spent so far, this one included
  bool ends_job = false;              ///< there is no next round: joining again gets Closed
};

/// To every node: the job is over. It is also the answer to every later join.
struct Closed {
  Ending ending;
};

/// To a node that cannot take part as it asked; Round forgets it.
struct Refused {
  std::string sentence;
  bool left_out = false;     ///< the job has ended, and all its places had been taken
  bool is_stranger = false;  ///< the node has not shown that it belongs to this master's job
};

/// To every node of a round: no rank makes progress, or some do again.
struct Stalled {
  std::string text;  ///< several lines
};

using Notification = std::variant<Ready, Broken, Closed, Refused, Stalled>;
/// The effect of one event. Every Broken in it is the same, and so is every Closed.
using Notifications = std::vector<std::pair<NodeId, Notification>>;

/// The rendezvous of one job; the comment above has its table.
class Round {
 public:
  using Clock = BootClock;
  using Time = Clock::time_point;

  enum class Phase { forming, active, ending, closed };

  /// `eviction_timeout`: the time that a node out of reach may run workers, for which a restarted
  /// master waits for the nodes of the round before. `master`: this master's name, by which nodes
  /// distinguish its rounds from others'. `inherited`: the state that earlier masters left, if
  /// masters are elected.
  explicit Round(RoundSpec spec, Clock::duration eviction_timeout = {}, std::string master = {},
                 std::optional<JobState> inherited = {});

  Notifications join(NodeId node, JoinRequest request, Time now);

  /// A worker of `node` failed in round `round`, the first one there.
  Notifications fail(NodeId node, int round, Failure failure, Time now);

  /// All workers of `node` ended with 0 in round `round`.
  Notifications succeed(NodeId node, int round, Time now);

  /// `node` leaves (ddprun was stopped there, by `signal` if that is known): it takes no further
  /// part, but its workers may run until it vanishes. When it joins again it counts as new.
  Notifications leave(NodeId node, Time now, const std::string& signal = "");

  /// `node` is lost, for a reason such as "silent for 10 s (--lease)". `own_fault` is the cause, if
  /// the node's workers themselves have caused the loss ("out of memory ..."): a failure.
  Notifications vanish(NodeId node, const std::string& reason, Time now,
                       const std::string& own_fault = "");

  /// `node` has connected, and another master had welcomed it before. Workers of that master's
  /// round may run there until it joins, and on nodes that have not connected yet.
  void had_another_master(NodeId node, Time now);

  /// Call it at `deadline`; harmless at any other time.
  Notifications tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

  /// The reason why a node that joined waits, to follow "waiting for": "1 of 2 nodes: have node 0
  /// (gpu-07, 8 workers); missing node_rank 1; giving up after 10 min (--join_timeout)". Empty when
  /// the job is over.
  std::string waiting_for() const;

  Phase phase() const { return phase_; }

  /// The number of nodes whose workers run.
  int running() const { return count(NodeState::running); }

  /// Every node that joined and is not lost.
  const Nodes& nodes() const { return nodes_; }

  /// The node that has this --node_rank and does not leave; nullptr: there is none.
  const Node* holder_of(int node_rank) const;

  bool closed() const { return phase_ == Phase::closed; }

  /// How the job ended; nullopt: it has not.
  const std::optional<Ending>& ending() const { return ending_; }

  /// The state for the next master.
  JobState state() const { return {last_round_, restarts(), ending_}; }

  int restarts() const { return budget_.spent(); }

 private:
  struct Join {
    NodeId node;
    JoinRequest request;
  };
  struct Fail {
    NodeId node;
    int round;
    Failure failure;
  };
  struct Succeed {
    NodeId node;
    int round;
  };
  struct Gone {
    NodeId node;
    std::string how;       ///< follows the node's name
    bool workers_may_run;  ///< it left and has not vanished yet
    std::string failure;   ///< follows the node's name, too, if the loss is a failure; else empty
  };
  struct Tick {};
  using Event = std::variant<Join, Fail, Succeed, Gone, Tick>;

  Notifications on(const Event& event, Time now);
  Notifications while_forming(const Event& event);
  Notifications while_active(const Event& event);
  Notifications while_ending(const Event& event);
  Notifications while_closed(const Event& event) const;

  Notifications join_active(const Join& event);
  Notifications fail_active(const Fail& event);
  Notifications succeed_active(const Succeed& event);
  Notifications gone_active(const Gone& event);
  Notifications tick_active();
  Notifications tick_forming();

  std::optional<std::string> refusal_of(const Join& event) const;
  void admit(const Join& event);
  void set_state(Node& node, NodeState next);
  void forget_suspect(const Gone& gone);
  void depart(const Gone& event);
  void release_node_rank(const Node& node);
  std::vector<NodeId> release_held();
  void forget(NodeId id);

  bool is_prior_round_unreported() const;
  Time prior_round_ends() const;
  bool all_past_members_back() const;
  std::optional<Time> starts_at() const;
  Notifications count_prior_failure();
  Notifications go_on();
  Notifications start_if_complete();
  Notifications start();
  Notifications take_in(const Node& node);
  Notifications restart_or_end(const Failure& failure, const std::string& reason);
  Notifications break_round(const Broken& news);
  Notifications regroup(const Broken& news);
  Notifications end(Failed failed, const std::string& reason);
  void add_exits(const Join& event);
  Notifications close_if_all_back();
  Notifications close(Ending ending);
  bool is_left_out(const JoinRequest& request) const;

  int count(NodeState state) const { return count_[static_cast<size_t>(state)]; }
  int stopping() const { return count(NodeState::returning) + count(NodeState::leaving); }
  std::string missing_text() const;
  bool no_participants() const {
    return static_cast<int>(nodes_.size()) == count(NodeState::leaving);
  }
  bool runs(NodeId id, int round) const;

  RoundSpec spec_;
  Clock::duration eviction_timeout_;
  std::string master_;
  std::optional<JobState> inherited_;
  bool had_another_master_ = false;  ///< had welcomed a node that came
  std::set<NodeId> unreported_;      ///< such nodes that have not joined yet
  Phase phase_ = Phase::forming;
  std::optional<Ending> ending_;  ///< closed
  std::string members_;           ///< closed: who took part, in words
  int round_ = -1;                ///< the active one, or the last one
  int last_round_ = -1;  ///< the highest number used, also by earlier masters as nodes report
  RestartBudget budget_;
  PriorRounds prior_rounds_;
  Failed failed_;                   ///< ending: how the job will be closed
  FailureSummary failure_summary_;  ///< ending: of that round
  Suspect suspect_;                 ///< of the latest round that was broken
  bool is_suspect_sought_ = false;  ///< it was broken by a worker, not by the loss of a node

  Nodes nodes_;
  std::map<int, NodeId> rank_holders_;  ///< by their --node_rank
  std::set<std::uint64_t> commands_;    ///< hashes of the nodes' commands when a round began
  std::array<int, 6> count_{};          ///< nodes by NodeState
  std::map<NodeId, Time> held_until_;
  NodeLosses losses_;
  int past_members_waiting_ = 0;  ///< waiting nodes that were in a round before
  std::uint64_t joins_ = 0;

  Time now_{};                        ///< of the latest event
  std::optional<Time> began_;         ///< of the first one
  Time started_{};                    ///< of the latest round's start
  Time since_{};                      ///< of the present phase; forming: of its first node's join
  std::optional<Time> enough_since_;  ///< forming, and min_nodes are waiting
};

}  // namespace ddprun::rendezvous
