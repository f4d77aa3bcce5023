// SPDX-License-Identifier: Apache-2.0
// Random histories of a whole job: the session units of agents and master, Round and Machine, with
// simulated processes, guardians, hosts, clocks and connections. There are no sockets, processes or
// waits: a history of minutes takes a millisecond, and its seed repeats it exactly.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/job/machine.h"
#include "rendezvous/session/agent_session.h"
#include "rendezvous/session/server_sessions.h"

namespace ddprun::simulation {

using Time = BootClock::time_point;
using Duration = BootClock::duration;

constexpr int kLongestStandstill = 15'000;  ///< how long a master may stand still, in milliseconds

/// In milliseconds: the longest time until a killed agent's workers are dead, and then until its
/// guardian notices.
constexpr int kKernelsTime = 20;

/// Counts events of a history, to see that histories are eventful.
struct Counts {
  long rounds = 0;
  long resumed = 0;      ///< sessions that continued on a new line
  long leases_over = 0;  ///< of agents with workers
  long evicted = 0;      ///< nodes that the master gave up
  long proven = 0;       ///< deaths that guardians or agents reported to the master
  long masters = 0;
  long gave_up = 0;
  long answers = 0;  ///< to questions between agents
  long stops = 0;    ///< requests to stop the whole job
  long hangs = 0;    ///< hanging rounds that the master found

  // Cases in which two rounds may run at once, as docs/design.md says.
  long of_suspended_host = 0;
  long of_unknown_round = 0;
  long of_unguarded_agent = 0;
  long of_killed_master = 0;

  Counts& operator+=(const Counts& other);
};

/// A message on a line. Most objects of a history are parcels.
struct Parcel {
  enum class Kind {
    opened,
    letter,  ///< a message or a reply
    ended,   ///< closed or reset by the other side
  };
  Kind kind = Kind::letter;
  std::shared_ptr<const Result<rendezvous::Message>> message = {};
  std::shared_ptr<const rendezvous::Reply> reply = {};
};

/// One direction of a line. While a node is cut off, its parcels stay here.
struct Way {
  std::deque<Parcel> parcels;
  Time last{};           ///< when the latest one arrives
  bool has_gap = false;  ///< parcels were lost, so the receiver reads no later one
};

/// A control connection. Both sides know it by the same number.
struct Line {
  int node = 0;
  int master = 0;  ///< the master's number
  bool own = false;
  bool agent_open = true;
  bool master_open = true;
  Way there;
  Way back;
};

/// A ddprun: guardian, agent and workers, on a host of their own.
struct Node {
  Node(int number, rendezvous::AgentSession::Settings settings)
      : name(number), session(std::move(settings)) {}

  int name;
  bool hosting = false;

  // The host.
  bool dead = false;
  bool suspended = false;
  bool cut = false;

  // The agent's process.
  bool killed = false;  ///< or ended by itself
  Time killed_at{};
  bool frozen = false;
  rendezvous::AgentSession session;
  agent::Machine machine;
  std::deque<agent::Event> events;
  bool handling = false;
  std::optional<rendezvous::Layout> layout;
  int restarts = 0;
  int dial = 0;  ///< number of the current attempt
  std::optional<Time> timer;
  std::chrono::milliseconds lease{0};
  std::optional<Time> lease_end;
  std::vector<std::function<void()>> deferred;  ///< events until the process runs again
  bool finished = false;
  bool told_to_stop = false;
  std::uint64_t last_question = 0;
  std::map<std::uint64_t, rendezvous::NodeId> asked;  ///< open questions, and whom they asked
  int changes = 0;                                    ///< of its lines and its reachability

  // The guardian's process.
  bool guardian_killed = false;
  std::optional<Time> liveness;  ///< when the agent's grace begins
  std::optional<Time> watch;     ///< when the guardian checks `liveness`
  bool has_final_message = false;

  // The workers.
  std::optional<int> round;   ///< the workers' round, while they run
  int round_master = 0;       ///< the master of `round`
  int master = 0;             ///< the master that spoke last
  bool hosted_round = false;  ///< `round_master` was elected and in this process
  int started = 0;            ///< counts the starts, to tell old events from new ones
  bool woken = false;         ///< the host was suspended since the workers started
  bool unguarded = false;     ///< since then, the agent stood still without a guardian
  bool hangs = false;         ///< the workers make no progress
  int said_quiet = 0;         ///< the value of `started` for which the agent reported that

  std::string session_name() const { return "session " + std::to_string(name); }
  bool runs() const { return !dead && !suspended && !killed && !frozen; }
};

class Simulation {
 public:
  /// With `wide`, half of the histories elect masters, as etcd does. Masters stand still with the
  /// node that hosts them, lines break by turns, and starts of workers fail. A seed yields another
  /// history than without `wide`.
  enum class Kind { narrow, wide };

  /// `trace`: writes each event to stderr.
  explicit Simulation(std::uint64_t seed, bool trace = false, Kind kind = Kind::narrow);

  /// Runs from the first join to the last answer. Returns false if violation() names one.
  bool run();

  const std::string& violation() const { return violation_; }
  const Counts& counts() const { return counts_; }

 private:
  using Round = std::pair<int, int>;  ///< the round's master and number

  // Chance and time.
  int leases(double count) const { return static_cast<int>(count * double(lease_.lease.count())); }
  int number(int from, int to) { return std::uniform_int_distribution<>(from, to)(random_); }
  bool chance(int one_in) { return number(1, one_in) == 1; }
  Duration milliseconds(int from, int to) { return std::chrono::milliseconds(number(from, to)); }
  Duration delay();
  void at(Time time, std::function<void()>&& event);
  void after(Duration duration, std::function<void()>&& event) {
    at(now_ + duration, std::move(event));
  }
  bool run_until(Time end, const std::function<bool()>& done);
  void violate(const std::string& what);
  /// Joins `parts` only if the history is traced: millions are not.
  template <class... Parts>
  void note(const Parts&... parts) const {
    if (trace_) print((... + text_of(parts)));
  }
  static std::string text_of(const std::string& text) { return text; }
  static std::string text_of(const char* text) { return text; }
  static std::string text_of(int number) { return std::to_string(number); }
  void print(const std::string& what) const;

  // The network.
  bool is_blocked(const Line& line, bool there) const;
  bool is_cut(const Node& node) const;
  Line& line_of(int id) { return lines_[static_cast<size_t>(id) - 1]; }
  void put(int line, bool there, Parcel parcel);
  void put(int line, bool there, rendezvous::Message message) {
    put(line, there,
        Parcel{Parcel::Kind::letter,
               std::make_shared<const Result<rendezvous::Message>>(std::move(message))});
  }
  void pump(int line, bool there);
  void pump_all(const std::function<bool(const Line&)>& which);
  void put_end(int line, bool there) { put(line, there, Parcel{Parcel::Kind::ended}); }
  void arrive_at_master(int id, const Parcel& parcel);
  void arrive_at_agent(int id, const Parcel& parcel);
  void close_agents_end(int id);
  void close_masters_end(int id);
  void reset(int id, bool agents_end, bool masters_end);
  void dial(Node& node);
  int connect(Node& node, bool own);

  // The master.
  void start_master();
  void stop_master(bool host_dies);
  void freeze_master(Duration duration);
  void thaw_master();
  bool master_runs() const { return sessions_ && !master_frozen_; }
  bool master_is_there() const { return sessions_.has_value(); }
  void perform(const rendezvous::ServerActions& actions);
  void note_start();
  void tick_master();
  void set_master_timer();

  // There is at most one elected master at a time. The next one starts when the leases of its nodes
  // are over, or when it has left.
  bool elect();
  bool is_resident(const Node& node) const {
    return elected_ && node.name == resident_ && sessions_;
  }
  void lose_elected(bool host_dies, Duration until_next);
  void record(const rendezvous::JobState& state);
  void was_recorded(int master);
  void retire(Node& node);

  // Nodes.
  Node& add_node(bool hosting);
  Node* any_node(const std::function<bool(const Node&)>& which);
  void perform(Node& node, rendezvous::AgentActions actions);
  void on(Node& node, rendezvous::AgentAction& action);
  void on(Node& node, const rendezvous::NodeEvent& event);
  void notify(Node& node, const rendezvous::Notification& notification);
  void handle(Node& node, agent::Event event);
  void perform(Node& node, const agent::Action& action);
  void join(Node& node);
  void start_workers(Node& node, const rendezvous::Layout& layout);
  void end_workers_after(Node& node, Duration duration);
  void workers_ended(Node& node);
  template <class What>
  void in_agent(Node& node, const What& event);
  void tick(Node& node);
  void set_timer(Node& node);
  void set_watch(Node& node);
  void watch_liveness(Node& node);
  void end_agent(Node& node);
  void guardian_says_gone(Node& node);
  void catch_up(Node& node);

  // Faults.
  void plan_misfortunes();
  void misfortune();
  void misfortune_of_master();
  void misfortune_of_elected();
  void misfortune_of_line();
  void misfortune_of_node();
  void request();
  void cut(Node& node, Duration duration);
  void part_from_others();
  void break_by_turns(int times);
  void freeze(Node& node, Duration duration);
  void suspend(Node& node, Duration duration);
  void stand_still(const Node& node, Duration duration);
  void kill_agent(Node& node);
  void kill_both(Node& node);
  void kill_guardian(Node& node);
  void kill_host(Node& node);
  void leave(Node& node);
  void fail_worker(Node& node);
  static rendezvous::Failure failure_of(const Node& node);
  void succeed(Node& node);
  void settle();

  // Questions, stops and hangs.
  void ask(Node& node);
  void take_inquiry(Node& node, const rendezvous::Inquiry& inquiry);
  void ask_listed(Node& node, const rendezvous::NodeList& list);
  void answer(Node& node, const rendezvous::Inquired& inquired);
  void take_answer(Node& node, const rendezvous::Informed& informed);
  void expect_calm(const std::vector<const Node*>& nodes, std::function<void()> check);
  void stop_job(Node& node);
  void check_stop();
  void hang(Node& node);
  void go_on(Node& node);
  void tell_progress(Node& node, bool quiet);
  void check_hang();

  // Invariants.
  void expect_end_of_round(const Node& sender, const rendezvous::message::Fail& fail);
  void check_lease(const Node& node);
  void check_start(const Node& node, const rendezvous::Layout& layout);
  void hear_of_round(const Node& sender, const rendezvous::message::Hello& hello);
  void check_recorded(const Node& node, const rendezvous::Layout& layout);
  bool was_told_of(const Round& other, const Round& at_start_of) const;
  bool is_being_killed(const Node& node) const;
  void check_end();

  std::mt19937 random_;
  const bool trace_;
  const bool wide_;
  rendezvous::RoundSpec spec_;
  rendezvous::LeaseSpec lease_;
  Counts counts_;
  std::string violation_;

  struct Due {
    Time time;
    std::uint64_t order;
    size_t place;  ///< the event's index in events_
    bool operator>(const Due& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  Time now_{};
  std::uint64_t last_order_ = 0;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> queue_;
  std::vector<std::function<void()>> events_;  ///< outside the queue, which moves its entries often
  std::vector<size_t> free_places_;

  std::deque<Line> lines_;  ///< by number, from 1; lines are never removed
  std::vector<std::unique_ptr<Node>> nodes_;

  std::optional<rendezvous::ServerSessions> sessions_;
  int masters_ = 0;
  int master_changes_ = 0;  ///< of the master's reachability
  bool master_frozen_ = false;
  bool master_host_dead_ = false;
  bool hosted_ = false;  ///< a node hosts the master
  bool never_returns_ = false;
  bool elected_ = false;
  int resident_ = -1;                             ///< the node whose process the master is in
  std::optional<rendezvous::JobState> recorded_;  ///< the state in etcd
  bool has_ended_ = false;                        ///< a node has read the end of the job
  std::map<int, int> numbers_;                    ///< numbers of rounds that ran, and their masters
  std::optional<Time> master_timer_;

  /// A master's knowledge of earlier masters' rounds.
  struct Told {
    std::set<Round> rounds;
    bool of_another = false;  ///< that there was another master
  };
  Told told_;                        ///< the current master's
  std::map<Round, Told> told_then_;  ///< any master's when it began that round
  std::set<int> rounds_started_;     ///< by the current master
  std::set<std::shared_ptr<const rendezvous::Reply>> found_hangs_;  ///< this master's reports
  bool settling_ = false;
  long rounds_while_settling_ = 0;
};

/// If the agent's process stands still, it handles the event when it runs again.
template <class What>
void Simulation::in_agent(Node& node, const What& event) {
  if (node.dead || node.killed) return;
  if (!node.runs()) return node.deferred.push_back(event);
  event();
}

}  // namespace ddprun::simulation
