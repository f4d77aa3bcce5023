// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/failure_summary.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"
#include "rendezvous/prior_round.h"
#include "rendezvous/restart_budget.h"

namespace ddprun::rendezvous {

/// To a node that takes part: start your workers.
struct Ready {
  Layout layout;
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

/// To a node that cannot take part as it asked; the round has already forgotten it.
struct Refused {
  std::string sentence;
};

using Notification = std::variant<Ready, Broken, Closed, Refused>;
/// What one event leads to. Every Broken in it is the same, and so is every Closed.
using Notifications = std::vector<std::pair<NodeId, Notification>>;

/// DECIDES who takes part in a round, when to regroup, and when the job is over. The only place
/// that counts restarts. Pure: it reads no clock and sends nothing; whoever calls it delivers the
/// notifications in their order and calls `tick` when `deadline` has come.
///
///   forming ──complete──▶ active ──all finished──────────────────▶ closed
///      ▲  │                 │ │                                     ▲ ▲ ▲
///      │  └─timed out───────┼─┼─────────────────────────────────────┘ │ │
///      └────────regroup─────┘ └─no restart left──▶ ending ──all back──┘ │
///                                                    └──join_timeout────┘
///
/// | event \ phase   | forming             | active                     | ending            |
/// closed |
/// |-----------------|---------------------|----------------------------|-------------------|--------|
/// | join, member    | –                   | regroup: it has no workers | –                 | – |
/// |                 |                     | any more                   |                   | | |
/// join, returning | waits; complete?    | as others                  | its aftermath is  | Closed
/// | |                 |                     |                            | noted; all back?  | |
/// | join, others    | waits; complete?    | room and nobody finished:  | waits for the end |
/// Closed | |                 |                     | regroup; else a spare      | |        | |
/// fail            | – (a victim)        | restart left: spend it and | – (a victim)      | – | |
/// |                     | regroup; else ending       |                   |        | | succeed | –
/// (too late)        | all finished: close with   | –                 | –      | | | | Succeeded |
/// |        | | leave           | returning: leaving; | running: leaving, and the  | as forming; |
/// –      | |                 | waiting: forgotten; | others regroup; finished   | all back? | | |
/// | complete?           | or spare: forgotten        |                   |        | | vanish |
/// forgotten;          | running: forgotten, and    | forgotten;        | –      | | | complete? |
/// the others regroup; others | all back?         |        | |                 | | forgotten | | |
/// | tick            | complete? too late: | –                          | too late: close   | – |
/// |                 | close with TimedOut |                            |                   | |
///
/// Complete is a round for which min_nodes wait, when
/// - the workers of the round before have ended: none of its nodes is still stopping them, be it to
///   come back or to leave (or join_timeout is over: it goes on without those),
/// - those of an earlier master's last round, of which nodes that join tell, have ended too: as
/// many
///   of its nodes joined as it had, or a lease is over since this master began,
/// - the pause after a restart is over (--restart_backoff), and
/// - max_nodes wait, or a member of an earlier round does, or all of an earlier master's round do,
///   or the last call is over, which began when min_nodes were waiting.
/// So a lost node is not waited for while min_nodes are left. When more than max_nodes wait, those
/// of the latest round go first, then of earlier ones, then the order of joining; the rest stand
/// by.
///
/// A regroup costs no restart by itself. `fail` and `succeed` count only from a member of that very
/// round that was not yet told to stop: what is reported later is a consequence, not a cause. Such
/// a victim is told once more, in words, when its node joins again.
///
/// A job that fails ends in two steps, so that all nodes end with the same full report: its members
/// stop their workers and join again, telling what became of them, and are answered together.
///
/// Node ranks: --node_rank if given, else a survivor keeps its own, and newcomers take the lowest
/// free ones in order of joining; a node on the rendezvous host takes 0. When the round shrinks,
/// nodes above the new size move into the gaps, so that ranks stay dense.
class Round {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit Round(RoundSpec spec) : spec_(spec), budget_(spec) {}

  Notifications join(NodeId node, JoinRequest request, Time now);

  /// A worker of `node` failed in round `round`, the first one there.
  Notifications fail(NodeId node, int round, Failure failure, Time now);

  /// All workers of `node` ended with 0 in round `round`.
  Notifications succeed(NodeId node, int round, Time now);

  /// `node` said goodbye (ddprun was stopped there): it takes no further part, but its workers may
  /// run until it vanishes.
  Notifications leave(NodeId node, Time now);

  /// `node` is gone; `reason` in words: "silent for 10 s (--lease)".
  Notifications vanish(NodeId node, const std::string& reason, Time now);

  /// Call it at `deadline`; harmless at any other time.
  Notifications tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

  /// For whom a node that joined waits, to follow "waiting for": "1 of 2 nodes: have node 0
  /// (gpu-07, 8 workers); missing node_rank 1; giving up after 10 min (--join_timeout)". Empty when
  /// the job is over.
  std::string waiting_for() const;

  bool closed() const { return phase_ == Phase::closed; }

  /// How the job ended; nullopt: it has not.
  const std::optional<Ending>& ending() const { return ending_; }

  int restarts() const { return budget_.spent(); }

 private:
  enum class Phase { forming, active, ending, closed };

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
    bool workers_may_run;  ///< it only left: what is more comes when it vanishes
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
  Notifications tick_forming();

  std::optional<std::string> refusal(const Join& event) const;
  void admit(const Join& event);
  void set_state(Node& node, NodeState next);
  void depart(const Gone& event);
  void give_back_rank(const Node& node);
  void forget(NodeId id);

  Time lease_ends() const;
  bool all_former_back() const;
  std::optional<Time> starts_at() const;
  Notifications start_if_complete();
  Notifications start();
  Notifications recall(const Broken& news);
  Notifications regroup(const Broken& news);
  Notifications end(const Broken& news, std::string no_restart);
  Notifications close_if_all_back();
  Notifications close(Ending ending);

  int count(NodeState state) const { return count_[static_cast<size_t>(state)]; }
  int stopping() const { return count(NodeState::returning) + count(NodeState::leaving); }
  std::string missing() const;
  bool nobody() const { return static_cast<int>(nodes_.size()) == count(NodeState::leaving); }
  bool runs(NodeId id, int round) const;

  RoundSpec spec_;
  Phase phase_ = Phase::forming;
  std::optional<Ending> ending_;  ///< closed
  int round_ = -1;                ///< the active one, or the last that was
  int last_round_ = -1;  ///< the highest number in use, as far as members tell an earlier master's
  RestartBudget budget_;
  PriorRound prior_round_;
  Failed failed_;                   ///< ending: with what the job is going to be closed
  FailureSummary failure_summary_;  ///< ending

  Nodes nodes_;                  ///< everyone who joined and is not gone
  std::map<int, NodeId> asked_;  ///< who holds which --node_rank
  std::array<int, 5> count_{};   ///< nodes by NodeState
  int former_waiting_ = 0;       ///< former members among the waiting
  std::uint64_t joins_ = 0;

  Time now_{};                 ///< of the latest event
  std::optional<Time> began_;  ///< of the first one
  Time started_{};             ///< of the latest round's start
  Time since_{};               ///< forming, ending: since when; meaningful while somebody is there
  std::optional<Time> enough_since_;  ///< forming, and min_nodes are waiting
};

}  // namespace ddprun::rendezvous
