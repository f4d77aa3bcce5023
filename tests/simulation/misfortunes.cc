// SPDX-License-Identifier: Apache-2.0
// Faults in a history.
#include <csignal>

#include "tests/simulation/simulation.h"

namespace ddprun::simulation {

using namespace rendezvous;
using std::chrono::seconds;
namespace event = agent::event;

void Simulation::plan_misfortunes() {
  const int count = number(0, 30);
  for (int i = 0; i < count; ++i) after(milliseconds(0, 60'000), [this] { misfortune(); });
}

void Simulation::misfortune() {
  if (settling_) return;
  switch (number(0, 12)) {
    case 0:
      return misfortune_of_master();
    case 1:
    case 2:
    case 3:
      return misfortune_of_line();
    case 10:
    case 11:
    case 12:
      return request();
    case 4:
      if (nodes_.size() < 8) add_node(false);
      return;
    default:
      return misfortune_of_node();
  }
}

void Simulation::misfortune_of_master() {
  if (chance(3)) return freeze_master(milliseconds(1, kLongestStandstill));
  if (elected_) return misfortune_of_elected();
  never_returns_ |= chance(8);
  const bool host_dies = chance(3);
  for (const auto& node : nodes_) {
    if (!node->hosting || node->dead) continue;
    if (host_dies) kill_host(*node);
    if (!host_dies) kill_agent(*node);
  }
  stop_master(host_dies);
  after(milliseconds(1, 20'000), [this] {
    if (!never_returns_) start_master();
  });
}

void Simulation::misfortune_of_elected() {
  if (!sessions_ || settling_) return;
  Node& node = *nodes_[static_cast<size_t>(resident_)];
  switch (number(0, 5)) {
    case 0:
      return kill_host(node);
    case 1:
    case 2:
    case 3:
      return leave(node);
    case 4:
      note("the master steps down");
      return lose_elected(false, milliseconds(leases(1.5), leases(3)));
    default:
      return kill_agent(node);
  }
}

void Simulation::misfortune_of_line() {
  if (wide_ && chance(4)) {
    break_by_turns(8);
    after(milliseconds(200, leases(0.4)), [this] {
      Node* const worker = any_node([](const Node& one) { return one.round && !one.cut; });
      if (worker != nullptr && !settling_) fail_worker(*worker);
    });
    return;
  }
  if (chance(2)) {
    Node* const node = any_node([](const Node& one) { return !one.hosting && !one.cut; });
    if (node == nullptr) return;
    const auto lease = static_cast<int>(lease_.lease.count());
    cut(*node, milliseconds(1, 2 * lease));
    return;
  }
  std::vector<int> open;
  for (int id = 1; id <= static_cast<int>(lines_.size()); ++id) {
    const Line& line = line_of(id);
    if (!line.own && line.agent_open && line.master_open && line.master == masters_)
      open.push_back(id);
  }
  if (open.empty()) return;
  const int line = open[static_cast<size_t>(number(0, static_cast<int>(open.size()) - 1))];
  const int ends = number(1, 3);
  note("line ", line, " of node ", line_of(line).node, " is reset at ",
       ends == 1   ? "the agent"
       : ends == 2 ? "the master"
                   : "both ends");
  reset(line, (ends & 1) != 0, (ends & 2) != 0);
}

/// A stop, a question, or workers that hang or continue.
void Simulation::request() {
  Node* const node = any_node([](const Node& one) { return one.runs(); });
  if (node == nullptr) return;
  const int kind = number(0, 19);
  if (kind == 0) return stop_job(*node);
  if (kind <= 10) return ask(*node);
  if (kind <= 13) return go_on(*node);
  const bool all = chance(2);
  for (const auto& one : nodes_) {
    if (all || one.get() == node) hang(*one);
  }
}

void Simulation::misfortune_of_node() {
  const int kind = number(0, 11);
  Node* const node = any_node([](const Node& one) { return !one.hosting; });
  if (kind <= 3) {
    Node* const worker = any_node([](const Node& one) { return one.round.has_value(); });
    if (worker != nullptr) kind == 0 ? succeed(*worker) : fail_worker(*worker);
    return;
  }
  if (node == nullptr) return;
  const Duration pause = milliseconds(1, 2 * static_cast<int>(lease_.lease.count()));
  if (kind <= 5) return freeze(*node, pause);
  if (kind == 6) return suspend(*node, pause);
  if (kind == 7) return kill_agent(*node);
  if (kind == 8) return kill_both(*node);
  if (kind == 9) return kill_guardian(*node);
  if (kind == 10) return kill_host(*node);
  leave(*node);
}

/// Cuts off all nodes, and adds as many new nodes as a round needs.
void Simulation::part_from_others() {
  const size_t there = nodes_.size();
  for (size_t i = 0; i < there; ++i) {
    if (!nodes_[i]->finished) cut(*nodes_[i], milliseconds(1, leases(2)));
  }
  for (int i = 0; i < spec_.min_nodes && there < 8; ++i) add_node(false);
}

/// Breaks the lines of one node after another: for longer than a lease, some node is out of reach.
void Simulation::break_by_turns(int times) {
  Node* const node = any_node([](const Node& one) { return !one.hosting && !one.cut; });
  if (node == nullptr || times == 0 || settling_) return;
  for (int id = 1; id <= static_cast<int>(lines_.size()); ++id) {
    if (line_of(id).node == node->name) reset(id, true, true);
  }
  after(std::chrono::milliseconds(100), [this, node] {
    if (!settling_) cut(*node, milliseconds(leases(0.4), leases(0.6)));
  });
  after(milliseconds(leases(0.2), leases(0.4)), [this, times] { break_by_turns(times - 1); });
}

/// Half of the nodes are soon cut off again after they are back.
void Simulation::cut(Node& node, Duration duration) {
  if (node.cut || node.dead) return;
  note("node ", node.name, " is cut off");
  node.cut = true;
  ++node.changes;
  master_changes_ += is_resident(node) ? 1 : 0;
  after(duration, [this, &node] {
    note("node ", node.name, " is back");
    node.cut = false;
    ++node.changes;
    master_changes_ += is_resident(node) ? 1 : 0;
    const bool all = is_resident(node);
    pump_all([&node, all](const Line& line) { return all || line.node == node.name; });
    if (!settling_ && chance(2)) {
      after(milliseconds(0, 100), [this, &node] {
        if (!settling_) cut(node, milliseconds(1, 2 * static_cast<int>(lease_.lease.count())));
      });
    }
  });
}

void Simulation::freeze(Node& node, Duration duration) {
  if (!node.runs()) return;
  note("node ", node.name, ": its agent freezes");
  node.frozen = true;
  ++node.changes;
  node.unguarded |= node.guardian_killed;
  stand_still(node, duration);
  after(duration, [this, &node] {
    note("node ", node.name, ": its agent thaws");
    node.frozen = false;
    ++node.changes;
    catch_up(node);
  });
}

/// An elected master in the node's process stands still. If that takes too long, it steps down.
void Simulation::stand_still(const Node& node, Duration duration) {
  if (!is_resident(node)) return;
  master_frozen_ = true;
  ++master_changes_;
  after(duration, [this, duration, master = masters_] {
    if (master != masters_ || !sessions_) return;
    if (duration < std::chrono::milliseconds(leases(1.5))) return thaw_master();
    note("the master steps down");
    lose_elected(false, milliseconds(leases(0), leases(1.5)));
  });
}

void Simulation::suspend(Node& node, Duration duration) {
  if (!node.runs()) return;
  note("node ", node.name, " is suspended");
  node.suspended = true;
  ++node.changes;
  node.woken = true;
  stand_still(node, duration);
  after(duration, [this, &node] {
    if (node.dead) return;
    note("node ", node.name, " resumes");
    node.suspended = false;
    ++node.changes;
    // The agent may have to wait a moment for the CPU.
    after(milliseconds(0, 20), [this, &node] { catch_up(node); });
  });
}

void Simulation::kill_agent(Node& node) {
  note("node ", node.name, ": its agent is killed");
  end_agent(node);
}

void Simulation::kill_both(Node& node) {
  node.guardian_killed = true;
  kill_agent(node);
}

void Simulation::kill_guardian(Node& node) {
  if (node.dead || std::exchange(node.guardian_killed, true)) return;
  note("node ", node.name, ": its guardian is killed");
  node.unguarded |= node.frozen;
  in_agent(node, [this, &node] { handle(node, event::StopRequested{SIGKILL, true}); });
}

void Simulation::kill_host(Node& node) {
  note("node ", node.name, ": its host dies");
  if (is_resident(node)) lose_elected(true, milliseconds(leases(1.5), leases(3)));
  node.dead = true;
  node.round.reset();
  node.deferred.clear();
}

void Simulation::leave(Node& node) {
  note("node ", node.name, " is asked to stop");
  in_agent(node, [this, &node] { handle(node, event::StopRequested{SIGTERM, false}); });
}

Failure Simulation::failure_of(const Node& node) {
  Failure failure;
  failure.rank = node.layout->first_rank;
  failure.wait_status = 1 << 8;
  failure.pid = 1;
  failure.host = "host " + std::to_string(node.name);
  return failure;
}

void Simulation::fail_worker(Node& node) {
  if (!node.round || node.suspended) return;
  note("node ", node.name, ": a worker fails");
  in_agent(node, [this, &node, failure = failure_of(node), started = node.started] {
    if (node.started == started && node.round) handle(node, event::WorkerFailed{failure});
  });
}

void Simulation::succeed(Node& node) {
  if (node.hangs && spec_.hang_timeout.count() > 0) return;  // until the master ends the round
  if (!node.suspended) {
    if (node.round) workers_ended(node);
  } else if (settling_) {
    after(milliseconds(500, 2'000), [this, &node] { succeed(node); });
  }
}

/// No new faults begin from here on, but current ones continue. The job has to end, and every node
/// that still runs has to hear that.
void Simulation::settle() {
  note("from here on nothing goes wrong");
  settling_ = true;
  if (!sessions_ && !never_returns_ && !elected_) start_master();
  for (const auto& node : nodes_) {
    after(milliseconds(500, 2'000), [this, &node = *node] { succeed(node); });
  }
}

}  // namespace ddprun::simulation
