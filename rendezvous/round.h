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

#include "rendezvous/layout.h"
#include "rendezvous/node.h"

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

using Letter = std::variant<Ready, Broken, Closed, Refused>;
using Letters = std::vector<std::pair<NodeId, Letter>>;

/// DECIDES who takes part in a round, when to regroup, and when the job is over. The only place
/// that counts restarts. Pure: it reads no clock and sends nothing; whoever calls it delivers the
/// letters in their order and calls `tick` when `deadline` has come.
///
///   forming ──complete──▶ active ──all finished──▶ closed
///      ▲  │                 │ │                      ▲ ▲
///      │  └─timed out───────┼─┼──────────────────────┘ │
///      └────────regroup─────┘ └─no restart left────────┘
///
/// | event \ phase   | forming             | active                              | closed |
/// |-----------------|---------------------|-------------------------------------|--------|
/// | join, member    | –                   | regroup: it has no workers any more | –      |
/// | join, others    | waits; complete?    | room and nobody finished: regroup,  | Closed |
/// |                 |                     | else stands by as a spare           |        |
/// | fail            | – (a victim)        | restart left: spend it and regroup, | –      |
/// |                 |                     | else close with Failed              |        |
/// | succeed         | – (too late)        | all finished: close with Succeeded  | –      |
/// | leave, vanish   | forgotten;          | running: regroup;                   | –      |
/// |                 | complete?           | finished or spare: forgotten        |        |
/// | tick            | complete? too late: | –                                   | –      |
/// |                 | close with TimedOut |                                     |        |
///
/// Complete is a round for which min_nodes wait, when
/// - none of the nodes told to come back is still stopping its workers (or join_timeout is over:
///   it goes on without those), and
/// - max_nodes wait, or a member of an earlier round does, or the last call is over, which began
///   when min_nodes were waiting.
/// So a lost node is not waited for while min_nodes are left. When more than max_nodes wait, those
/// of the latest round go first, then of earlier ones, then the order of joining; the rest stand
/// by.
///
/// A regroup costs no restart by itself. `fail` and `succeed` count only from a member of that very
/// round that was not yet told to stop: what is reported later is a consequence, not a cause.
///
/// Node ranks: --node_rank if given, else a survivor keeps its own, and newcomers take the lowest
/// free ones in order of joining; a node on the rendezvous host takes 0. When the round shrinks,
/// nodes above the new size move into the gaps, so that ranks stay dense.
class Round {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit Round(RoundSpec spec) : spec_(spec) {}

  Letters join(NodeId node, JoinRequest request, Time now);

  /// A worker of `node` failed in round `round`, the first one there.
  Letters fail(NodeId node, int round, Failure failure, Time now);

  /// All workers of `node` ended with 0 in round `round`.
  Letters succeed(NodeId node, int round, Time now);

  /// `node` said goodbye (ddprun was stopped there).
  Letters leave(NodeId node, Time now);

  /// `node` is gone; `reason` in words: "silent for 10 s (--lease)".
  Letters vanish(NodeId node, const std::string& reason, Time now);

  /// Call it at `deadline`; harmless at any other time.
  Letters tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

  /// For whom a node that joined waits, to follow "waiting for": "1 of 2 nodes: have node 0
  /// (gpu-07, 8 workers); missing node_rank 1". Empty when the job is over.
  std::string waiting_for() const;

  bool closed() const { return phase_ == Phase::closed; }
  int restarts() const { return restarts_; }

 private:
  enum class Phase { forming, active, closed };

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
    std::string how;  ///< follows the node's name
  };
  struct Tick {};
  using Event = std::variant<Join, Fail, Succeed, Gone, Tick>;

  Letters on(const Event& event, Time now);
  Letters while_forming(const Event& event, Time now);
  Letters while_active(const Event& event, Time now);
  Letters while_closed(const Event& event) const;

  Letters join_active(const Join& event, Time now);
  Letters fail_active(const Fail& event, Time now);
  Letters succeed_active(const Succeed& event);
  Letters gone_active(const Gone& event, Time now);

  std::optional<std::string> refusal(const Join& event) const;
  void admit(const Join& event);
  void place(Node& node, Place next);
  void forget(NodeId id);

  bool complete(Time now) const;
  Letters start_if_complete(Time now);
  Letters start();
  Letters regroup(const Broken& news, Time now);
  Letters close(Ending ending);

  int count(Place place) const { return count_[static_cast<size_t>(place)]; }
  bool runs(NodeId id, int round) const;

  RoundSpec spec_;
  Phase phase_ = Phase::forming;
  std::optional<Ending> ending_;
  int round_ = -1;       ///< the active one, or the last that was
  int last_round_ = -1;  ///< the highest number in use, as far as members tell an earlier master's
  int restarts_ = 0;

  Nodes nodes_;                  ///< everyone who joined and is not gone
  std::map<int, NodeId> asked_;  ///< who holds which --node_rank
  std::array<int, 5> count_{};   ///< nodes by Place
  int former_waiting_ = 0;       ///< former members among the waiting
  std::uint64_t joins_ = 0;
  Time forming_since_{};              ///< meaningful while somebody is there
  std::optional<Time> enough_since_;  ///< forming, and min_nodes are waiting
};

}  // namespace ddprun::rendezvous
