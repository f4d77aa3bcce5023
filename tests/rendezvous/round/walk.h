// SPDX-License-Identifier: Apache-2.0
// Random histories: agents that behave as agent/job/machine does, notifications and messages that
// cross each other, links that are cut in silence, crashes, nodes that leave and masters that
// restart at any time. The invariants hold in all of them.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/round/round.h"

namespace ddprun::rendezvous {

/// One simulated agent and the two directions of its connection, each in order.
struct Agent {
  enum class State { joining, running, stopping, draining, done };
  State state = State::joining;
  bool refused = false;
  bool leaves = false;                  ///< it sent Leave and ends when its workers have
  bool told_end = false;                ///< it got the job's end: likewise
  bool connected = true;                ///< to the present master
  std::optional<Round::Time> cut;       ///< when its link went down in silence
  std::optional<Round::Time> doomed;    ///< it lost its master: when its workers are killed
  std::optional<Round::Time> returned;  ///< when the present master had it back after a loss
  std::optional<Round::Time> told;      ///< when it learned, or decided, to stop its workers
  NodeId node = 0;                      ///< its number at the present master
  JoinRequest request;
  std::optional<Layout> layout;                       ///< of the round it was last in
  std::deque<Notification> inbox;                     ///< sent by Round, not read yet
  std::deque<std::function<Notifications()>> outbox;  ///< sent to Round, not delivered yet

  bool works() const { return state == State::running || state == State::stopping; }
};

/// One history. A broken invariant is a failed CHECK of the test that runs it.
class Walk {
 public:
  explicit Walk(unsigned seed);

  /// Runs `steps` events, and then no more failures until every agent has got the end.
  void run(int steps);

  /// Rounds that were started, and those that continue the numbers of an earlier master.
  int rounds() const { return rounds_; }
  int resumed() const { return resumed_; }

  /// Restarts for failures that only a later master heard of.
  int prior_failures() const { return prior_failures_counted_; }

  /// Losses of a node that cost a restart.
  int paid_losses() const { return paid_losses_; }

 private:
  using Time = Round::Time;

  int number(int from, int to) { return std::uniform_int_distribution<>(from, to)(random_); }
  bool chance(int one_in) { return number(1, one_in) == 1; }

  /// One event of any kind.
  void step();
  void misfortune();

  /// From here on nothing fails and all agents finish what they are doing: the job must end, and
  /// every agent must get its end.
  void settle();

  /// Whether each agent was refused, or got the end from an earlier master.
  bool everyone_was_refused() const;
  bool all_done() const;
  std::vector<int> names() const;

  template <class F>
  void on_any(F act) {
    if (agents_.empty()) return;
    auto any = agents_.begin();
    std::advance(any, number(0, static_cast<int>(agents_.size()) - 1));
    act(any->second);
  }

  // Events of agents.

  void new_agent(bool hosting);
  int new_name();

  int name_of(const Agent& agent) const { return std::stoi(agent.request.host); }

  /// Finds the present master, which is not the one of its round: that round is over.
  void contact(Agent& agent);

  /// Cuts it off: its workers run until its lease is over, or until it finds a master.
  void disconnect(Agent& agent);

  void join(Agent& agent);
  void worker_event(Agent& agent);
  void succeed(Agent& agent);
  void end_stopped(Agent& agent);
  void end_workers(Agent& agent);
  void leave(Agent& agent);

  /// Ends its process in order, after all its messages.
  void vanish(Agent& agent);

  void kill(Agent& agent);
  void read(Agent& agent);
  void start_workers(Agent& agent, const Layout& layout);

  // Events around them.

  void wait(Round::Clock::duration duration);

  /// Kills the workers whose lease is over, and then lets the master evict the silent nodes.
  void end_leases();

  void restart_master();
  void deliver(Agent& agent);
  Notifications joined(NodeId node, const JoinRequest& request);
  Notifications failed(NodeId node, int round, const Failure& failure);

  /// A loss is free, unless the node had come back soon before from another one.
  Notifications lost(Agent& agent, const std::string& reason);

  void end_by_failure();

  /// Restarts that count against the budget now.
  int used() const;

  void spend();

  /// Round's reaction to a failure in the last round of an earlier master.
  void count_prior_failure();

  void post(const Notifications& notifications);

  // Invariants.

  /// Whether it needs so long to stop that Round starts without it.
  bool given_up(const Agent& agent) const;

  void check_nobody_works_but_in(int round);

  /// The Ready notifications of one event are one whole round.
  void check_round_of(const Notifications& notifications);

  /// A node keeps its rank unless the round shrank below it, or a rendezvous host took rank 0;
  /// a given rank is kept always.
  void check_stable(const std::vector<std::pair<const Agent*, Layout>>& members);

  /// The end is the same for every node, and comes after all reports.
  void check_end(const Ending& ending);

  std::mt19937 random_;
  RoundSpec spec_;
  std::chrono::milliseconds eviction_timeout_{0};
  bool ranks_given_ = false;
  bool master_takes_part_ = false;
  Time now_{};
  std::map<int, Agent> agents_;  ///< by name, which is also their host's
  std::map<NodeId, int> at_node_;
  int next_name_ = 1;
  NodeId last_node_ = 0;

  // The present master.
  std::optional<Round> round_;
  int master_ = 1;            ///< its number
  int highest_ = -1;          ///< the highest round that it started or heard of
  int before_ = -1;           ///< the same before its latest round
  int own_ = -1;              ///< the latest one that it started
  int spent_ = 0;             ///< restarts that it spent or heard of
  std::vector<Time> spends_;  ///< their times
  Time pause_ends_ = Time::min();
  Time started_{};
  std::optional<Time> ended_;       ///< when it stopped a round for good
  std::optional<std::string> end_;  ///< the end that it announced
  /// Failures that it heard of: by round, the restarts at its start and how long it ran.
  std::map<int, std::pair<int, double>> prior_failures_;
  std::set<int> lost_names_;  ///< of agents that it lost

  int masters_ = 1;
  bool blind_ = false;  ///< a master continued without knowing an earlier one's round
  int rounds_ = 0;
  int resumed_ = 0;  ///< after an earlier master's
  int prior_failures_counted_ = 0;
  int paid_losses_ = 0;
};

}  // namespace ddprun::rendezvous
