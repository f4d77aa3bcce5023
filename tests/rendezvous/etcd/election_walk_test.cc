// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <random>

#include "rendezvous/etcd/election.h"
#include "tests/catch.h"
#include "tests/rendezvous/etcd/etcd_model.h"

namespace ddprun::rendezvous::etcd {
namespace {

using namespace std::chrono_literals;
using Time = Election::Time;

// The sanitizers find as much with fewer histories.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kHistories = 200;
#else
constexpr int kHistories = 1'000;
#endif

constexpr std::chrono::milliseconds kLeaseOfNodes{4'000};

/// The time that a node's workers may run after its last sign of life, as the master counts.
constexpr auto kWorkersOutlive = kLeaseOfNodes + kLeaseOfNodes / 5;

/// Nodes that come, go and freeze, and a network that loses and delays.
class Walk {
 public:
  explicit Walk(unsigned seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) add_node();
  }

  void run() {
    for (int i = 0; i < 150; ++i) {
      disturb();
      step(number(10, 1'500) * 1ms);
    }
    settle();
  }

  int elections = 0, step_downs = 0, rounds = 0, taken_over = 0;
  int refused_writes() const { return etcd_.refused_writes; }

 private:
  struct Node {
    std::string name;
    Election election{kLeaseOfNodes};
    bool leads = false;
    bool writes = false;
    int round = -1;
    Time frozen_until{};
    Time leases_end{};  // of its workers, and of those to which it gave leases as the master
  };
  struct Packet {
    std::string node;
    std::uint64_t number;
    Request request;
    Time sent;
    std::optional<Time> arrives;  // nullopt: never
    bool answer_is_lost;
    std::optional<std::optional<Answer>> answer;
    Time answered_at;
  };

  int number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool chance(int percent) { return number(1, 100) <= percent; }

  /// A delay, now and then longer than any wait for an answer.
  std::chrono::milliseconds delay() { return number(0, !calm_ && chance(5) ? 8'000 : 50) * 1ms; }

  void add_node() {
    auto node = std::make_unique<Node>();
    node->name = "node" + std::to_string(++last_node_);
    nodes_.push_back(std::move(node));
  }

  Node* find(const std::string& name) {
    for (const auto& node : nodes_) {
      if (node->name == name) return node.get();
    }
    return nullptr;
  }

  void disturb() {
    if (chance(10)) loss_ = number(0, 1) * number(0, 100);
    if (chance(10)) cut_off_ = nodes_[static_cast<size_t>(number(0, 2))]->name;
    if (chance(20)) cut_off_.clear();
    Node& node = *nodes_[static_cast<size_t>(number(0, 2))];
    if (chance(5)) node.frozen_until = now_ + number(1, 20) * 1s;
    if (chance(4)) replace(node);
  }

  /// A host dies for good, or its node ends in order: then its workers have ended.
  void replace(const Node& node) {
    Node& gone = *find(node.name);
    if (chance(50) && !is_frozen(gone)) {
      gone.leases_end = now_;
      gone.leads = false;
      perform(gone, gone.election.resign());
    }
    dead_[gone.name] = gone.leases_end;
    std::erase_if(nodes_, [&gone](const auto& each) { return each.get() == &gone; });
    add_node();
  }

  void step(std::chrono::milliseconds time) {
    for (const Time end = now_ + time; now_ < end;) {
      now_ = std::min(end, now_ + 100ms);
      deliver();
      etcd_.expire(now_, [this] { return chance(30); });
      check_expired();
      for (const auto& node : nodes_) live(*node);
    }
  }

  bool is_frozen(const Node& node) const { return now_ < node.frozen_until; }

  void live(Node& node) {
    if (is_frozen(node)) return;
    if (const auto due = node.election.deadline(); due && *due <= now_) {
      perform(node, node.election.tick(now_));
    }
    if (chance(20)) perform(node, node.election.look(now_));
    if (node.leads && !node.writes && chance(5)) {
      node.writes = true;
      perform(node, node.election.record(std::to_string(node.round + 1), now_));
    }
  }

  void perform(Node& node, const ElectionActions& actions) {
    for (const ElectionAction& action : actions) {
      std::visit([&](const auto& a) { on(node, a); }, action);
    }
    if (!node.leads) return;
    // If a node is the master by its own clock, it is the master.
    REQUIRE(etcd_.master);
    REQUIRE(etcd_.master->value == node.name);
    node.leases_end = now_ + kWorkersOutlive;
  }

  void on(Node& node, const election_action::Ask& ask) {
    const bool lost = cut_off_ == node.name || chance(loss_);
    Packet packet{node.name, ask.number, ask.request, now_, {}, chance(loss_), {}, {}};
    if (!lost) packet.arrives = now_ + delay();
    packets_.push_back(std::move(packet));
  }
  void on(Node& node, const election_action::Found& found) { CHECK((found.master || node.leads)); }
  void on(Node&, const election_action::NotFound&) {}
  void on(Node& node, const election_action::Lead& lead) {
    ++elections;
    CHECK_FALSE(node.leads);
    node.leads = true;
    node.writes = false;
    node.round = lead.state.empty() ? -1 : std::stoi(lead.state);
    if (!lead.state.empty()) ++taken_over;
    // An announced state is known, unless there was no master for so long that it was given up.
    if (!lead.state.empty()) CHECK(node.round >= announced_);
    announced_ = lead.state.empty() ? -1 : announced_;
  }
  void on(Node& node, const election_action::Done&) {
    CHECK(node.leads);
    node.writes = false;
    ++node.round;
    ++rounds;
    CHECK(node.round > announced_);  // no round is announced twice
    announced_ = node.round;
  }
  void on(Node& node, const election_action::Delayed&) { CHECK(node.writes); }
  void on(Node& node, const election_action::StepDown&) {
    CHECK(node.leads);
    node.leads = false;
    ++step_downs;
  }

  void deliver() {
    for (size_t i = 0; i < packets_.size(); ++i) {
      if (packets_[i].arrives && *packets_[i].arrives <= now_ && !packets_[i].answer) apply(i);
    }
    for (size_t i = 0; i < packets_.size(); ++i) answer(i);
    std::erase_if(packets_, [](const Packet& packet) {
      const bool may_arrive = packet.arrives && !packet.answer;
      return packet.number == 0 && !may_arrive;
    });
  }

  void apply(size_t i) {
    Packet& packet = packets_[i];
    packet.answer = etcd_.apply(packet.request, packet.node, now_);
    packet.answered_at = now_ + delay();
  }

  /// Ends a request with its answer, or without one after a while; then its number is 0.
  void answer(size_t i) {
    Packet& packet = packets_[i];
    Node* node = find(packet.node);
    if (packet.number == 0 || (node != nullptr && is_frozen(*node))) return;
    const bool has_come =
        packet.answer && !packet.answer_is_lost && packet.answered_at <= now_ && loss_ < 100;
    const bool is_late = packet.sent + 3'600ms <= now_;
    if (!has_come && !is_late) return;
    const std::uint64_t number = std::exchange(packet.number, 0);
    if (node == nullptr) return;
    const auto answer = packet.answer;
    perform(*node, has_come && *answer ? node->election.answered(number, **answer, now_)
                                       : node->election.failed(number, "no answer", now_));
  }

  /// When a master's key expires, no worker has a lease from that master.
  void check_expired() {
    for (const std::string& name : std::exchange(etcd_.expired, {})) {
      const Node* node = find(name);
      CHECK((node != nullptr ? node->leases_end : dead_[name]) <= now_);
    }
  }

  /// If nothing goes wrong any more, there is one master, which can begin a round.
  void settle() {
    calm_ = true;
    loss_ = 0;
    cut_off_.clear();
    for (const auto& node : nodes_) node->frozen_until = now_;
    step(40s);
    const int before = rounds;
    step(40s);
    int masters = 0;
    for (const auto& node : nodes_) masters += node->leads ? 1 : 0;
    CHECK(masters == 1);
    CHECK(rounds > before);
  }

  std::mt19937 random_;
  Time now_ = Time() + 1h;
  EtcdModel etcd_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::string, Time> dead_;  // the ends of their leases, and of those that they gave
  std::vector<Packet> packets_;
  int last_node_ = 0;
  int loss_ = 0;  // percent
  bool calm_ = false;
  std::string cut_off_;
  int announced_ = -1;
};

TEST_CASE("there is one master, whatever etcd's answers, the network and the nodes do") {
  int elections = 0, step_downs = 0, rounds = 0, taken_over = 0, refused_writes = 0;
  for (int seed = 1; seed <= kHistories; ++seed) {
    INFO("seed " << seed);
    Walk walk(static_cast<unsigned>(seed));
    walk.run();
    elections += walk.elections;
    step_downs += walk.step_downs;
    rounds += walk.rounds;
    taken_over += walk.taken_over;
    refused_writes += walk.refused_writes();
  }
  // Else the histories are too uneventful to mean much.
  CHECK(elections > 2 * kHistories);
  CHECK(step_downs > kHistories);
  CHECK(taken_over > kHistories);
  CHECK(rounds > 10 * kHistories);
  CHECK(refused_writes > kHistories / 100);
}

}  // namespace
}  // namespace ddprun::rendezvous::etcd
