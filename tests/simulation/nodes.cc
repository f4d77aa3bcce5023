// SPDX-License-Identifier: Apache-2.0
// The behaviour of a node: its workers, the agent as in agent/agent.cc, and the guardian as in
// launcher/guardian/guardian.cc.
#include <algorithm>
#include <csignal>

#include "tests/simulation/simulation.h"

namespace ddprun::simulation {

using namespace rendezvous;
namespace action = agent::action;
namespace event = agent::event;

namespace {

std::string round_text(const std::pair<int, int>& round) {
  return "round " + std::to_string(round.second) + " of master " + std::to_string(round.first);
}

}  // namespace

Node& Simulation::add_node(bool hosting) {
  const int name = static_cast<int>(nodes_.size());
  AgentSession::Settings settings;
  settings.master = "master";
  settings.run_id = "job";
  settings.min_nodes = spec_.min_nodes;
  settings.max_nodes = spec_.max_nodes;
  settings.host = "host " + std::to_string(name);
  settings.session = "session " + std::to_string(name);
  settings.elected = elected_;
  settings.hosting = hosting;
  settings.join_timeout = spec_.join_timeout;
  nodes_.push_back(std::make_unique<Node>(name, std::move(settings)));
  Node& node = *nodes_.back();
  node.hosting = hosting;
  node.last_question = static_cast<std::uint64_t>(name) << 32;  // random in NodeQuestions
  note("node ", name, " starts");
  for (const agent::Action& action : node.machine.start()) perform(node, action);
  return node;
}

Node* Simulation::any_node(const std::function<bool(const Node&)>& which) {
  std::vector<Node*> all;
  for (const auto& node : nodes_) {
    if (!node->dead && !node->killed && !node->finished && which(*node)) all.push_back(node.get());
  }
  return all.empty() ? nullptr
                     : all[static_cast<size_t>(number(0, static_cast<int>(all.size()) - 1))];
}

// The agent.

void Simulation::perform(Node& node, AgentActions actions) {
  for (AgentAction& action : actions) on(node, action);
  if (node.runs()) set_timer(node);
}

void Simulation::on(Node& node, AgentAction& action) {
  if (node.killed) return;
  if (std::holds_alternative<agent_action::Dial>(action)) {
    dial(node);
  } else if (std::holds_alternative<agent_action::StopDialing>(action)) {
    ++node.dial;
  } else if (auto* send = std::get_if<agent_action::Send>(&action)) {
    const int line = static_cast<int>(send->to);
    if (line_of(line).agent_open) put(line, true, std::move(send->message));
  } else if (const auto* close = std::get_if<agent_action::Close>(&action)) {
    close_agents_end(static_cast<int>(close->connection));
  } else if (const auto* event = std::get_if<NodeEvent>(&action)) {
    on(node, *event);
  }
}

void Simulation::on(Node& node, const NodeEvent& event) {
  if (const auto* welcomed = std::get_if<node_event::Welcomed>(&event)) {
    node.lease = welcomed->welcome.lease;
  } else if (const auto* notified = std::get_if<node_event::Notified>(&event)) {
    notify(node, notified->notification);
  } else if (const auto* inquiring = std::get_if<node_event::Inquiring>(&event)) {
    take_inquiry(node, inquiring->inquiry);
  } else if (const auto* renewed = std::get_if<node_event::LeaseRenewed>(&event)) {
    node.lease_end = renewed->until;
    node.liveness = renewed->until + node.lease / 20;
    set_watch(node);
  } else if (std::holds_alternative<node_event::LeaseOver>(event)) {
    note("node ", node.name, ": lease over");
    counts_.leases_over += node.round ? 1 : 0;
    handle(node, event::LeaseOver{});
    node.lease_end.reset();
    node.liveness.reset();
  } else if (std::holds_alternative<node_event::RoundLost>(event)) {
    handle(node, event::RoundBroken{});
  } else if (const auto* gave_up = std::get_if<node_event::GaveUp>(&event)) {
    note("node ", node.name, ": ", gave_up->error.message);
    ++counts_.gave_up;
    node.has_final_message = false;
    handle(node, event::JobClosed{gave_up->error});
  }
}

void Simulation::notify(Node& node, const Notification& notification) {
  if (const auto* ready = std::get_if<Ready>(&notification)) {
    handle(node, event::RoundReady{ready->layout});
  } else if (const auto* broken = std::get_if<Broken>(&notification)) {
    note("node ", node.name, " reads: ", broken->reason);
    node.restarts = broken->restarts;
    handle(node, event::RoundBroken{broken->ends_job});
  } else if (const auto* closed = std::get_if<Closed>(&notification)) {
    has_ended_ = true;
    node.has_final_message = false;
    handle(node, event::JobClosed{agent::outcome_of(closed->ending)});
  } else if (const auto* refused = std::get_if<Refused>(&notification)) {
    if (!refused->left_out)
      violate("node " + std::to_string(node.name) + " is refused: " + refused->sentence);
    handle(node, event::JobClosed{Error{Errc::usage, refused->sentence}});
  }
}

void Simulation::handle(Node& node, agent::Event event) {
  node.events.push_back(std::move(event));
  if (std::exchange(node.handling, true)) return;
  while (!node.events.empty()) {
    const agent::Event next = std::move(node.events.front());
    node.events.pop_front();
    for (const agent::Action& action : node.machine.on(next)) perform(node, action);
  }
  node.handling = false;
}

void Simulation::perform(Node& node, const agent::Action& action) {
  if (node.killed) return;
  if (std::holds_alternative<action::Join>(action)) {
    join(node);
  } else if (const auto* start = std::get_if<action::StartWorkers>(&action)) {
    start_workers(node, start->layout);
  } else if (const auto* report = std::get_if<action::ReportFailure>(&action)) {
    perform(node, node.session.fail(node.layout->round, report->failure, now_));
  } else if (std::holds_alternative<action::ReportStartFailure>(action)) {
    perform(node, node.session.fail(node.layout->round, failure_of(node), now_));
  } else if (std::holds_alternative<action::ReportSuccess>(action)) {
    perform(node, node.session.succeed(node.layout->round, now_));
  } else if (const auto* stop = std::get_if<action::StopWorkers>(&action)) {
    end_workers_after(node, stop->signal == SIGKILL ? milliseconds(0, 20) : milliseconds(0, 6'000));
  } else if (std::holds_alternative<action::Leave>(action)) {
    perform(node, node.session.leave("SIGTERM", now_));
  } else {
    note("node ", node.name, " finishes");
    node.finished = true;
    perform(node, node.session.gone("its ddprun ended", now_));
    if (!node.hosting) after(milliseconds(0, 5), [this, &node] { retire(node); });
  }
}

void Simulation::join(Node& node) {
  JoinRequest request;
  request.host = "host " + std::to_string(node.name);
  request.hosting = request.is_host = node.hosting;
  request.local_size = 1;
  if (node.layout) {
    request.last_round = node.layout->round;
    request.last_node_rank = node.layout->node_rank;
    request.last_guests = node.layout->guests;
    request.last_restarts = node.layout->restarts;
    request.last_hosted = node.hosted_round;
    request.restarts = node.restarts;
  }
  perform(node, node.session.join(std::move(request), now_));
}

void Simulation::start_workers(Node& node, const Layout& layout) {
  note("node ", node.name, " starts workers of round ", layout.round);
  check_lease(node);
  check_start(node, layout);
  node.layout = layout;
  node.restarts = layout.restarts;
  node.round = layout.round;
  node.round_master = node.master;
  node.woken = node.unguarded = node.hangs = false;
  node.hosted_round = elected_ && node.master == masters_ && node.name == resident_;
  ++node.started;
  if (wide_ && !settling_ && chance(30)) {
    note("node ", node.name, ": its workers cannot be started");
    handle(node, event::StartFailed{{Errc::system, "no"}});
  }
  if (!settling_) return;
  after(milliseconds(500, 2'000), [this, &node, started = node.started] {
    if (node.started == started) succeed(node);
  });
}

void Simulation::end_workers_after(Node& node, Duration duration) {
  after(duration, [this, &node, started = node.started] {
    // Workers of a suspended host do not end before the host runs again.
    if (node.suspended) {
      return node.deferred.push_back([this, &node] { workers_ended(node); });
    }
    if (node.started == started && node.round) workers_ended(node);
  });
}

void Simulation::workers_ended(Node& node) {
  if (!node.round) return;
  note("node ", node.name, ": workers ended");
  node.round.reset();
  in_agent(node, [this, &node] { handle(node, event::WorkersEnded{}); });
}

void Simulation::tick(Node& node) {
  node.timer.reset();
  perform(node, node.session.tick(now_));
}

void Simulation::set_timer(Node& node) {
  const auto deadline = node.session.deadline();
  if (!deadline || (node.timer && *node.timer <= *deadline)) return;
  node.timer = std::max(*deadline, now_);
  at(*node.timer, [this, &node] {
    if (node.timer == now_) in_agent(node, [this, &node] { tick(node); });
  });
}

/// The process runs again. Timers, sockets and signals have become ready in any order.
void Simulation::catch_up(Node& node) {
  if (!node.runs()) return;
  auto waiting = std::exchange(node.deferred, {});
  std::shuffle(waiting.begin(), waiting.end(), random_);
  const auto read = [this, &node] {
    pump_all([&node](const Line& line) { return line.node == node.name; });
  };
  if (chance(2)) read();
  for (auto& event : waiting) after({}, [this, &node, event] { in_agent(node, event); });
  read();
  watch_liveness(node);
}

// The guardian.

/// Each answered heartbeat moves node.liveness. One event checks the latest of these times.
void Simulation::set_watch(Node& node) {
  if (node.watch && *node.watch <= *node.liveness) return;
  node.watch = node.liveness;
  at(*node.watch, [this, &node] {
    if (node.watch != now_) return;
    node.watch.reset();
    if (node.liveness > now_) return set_watch(node);
    watch_liveness(node);
  });
}

void Simulation::watch_liveness(Node& node) {
  const auto stands_still = [this, &node](const std::optional<Time>& expired) {
    return !node.dead && !node.killed && !node.suspended && !node.guardian_killed && expired &&
           node.liveness == expired && *expired <= now_;
  };
  if (!stands_still(node.liveness)) return;
  after(node.lease / 20, [this, &node, stands_still, expired = node.liveness] {
    if (!stands_still(expired)) return;
    note("node ", node.name, ": its guardian kills the agent");
    kill_agent(node);
  });
}

/// The agent's process has ended for any reason.
void Simulation::end_agent(Node& node) {
  if (node.dead || node.killed) return;
  node.killed = true;
  node.killed_at = now_;
  if (is_resident(node)) lose_elected(false, milliseconds(leases(1.5), leases(3)));
  for (int id = 1; id <= static_cast<int>(lines_.size()); ++id) {
    if (line_of(id).node == node.name) close_agents_end(id);
  }
  node.deferred.clear();
  // The parent-death signal kills the workers. The guardian kills and reaps what is left.
  after(milliseconds(0, kKernelsTime), [this, &node] {
    if (node.dead) return;
    if (node.round) note("node ", node.name, ": workers died with the agent");
    node.round.reset();
    if (!node.guardian_killed)
      after(milliseconds(0, kKernelsTime), [this, &node] { guardian_says_gone(node); });
  });
}

void Simulation::guardian_says_gone(Node& node) {
  if (node.dead || !node.has_final_message || is_cut(node) || !master_is_there()) return;
  after(delay(), [this, &node] {
    if (node.dead || is_cut(node) || !master_is_there()) return;
    const int line = connect(node, false);
    put(line, true, Message(message::Gone{node.session_name(), "it was killed"}));
    close_agents_end(line);
  });
}

// Invariants.

/// A node that hosts the master cannot lose its lease.
void Simulation::check_lease(const Node& node) {
  const bool has_one = node.hosting || (node.lease_end && now_ < *node.lease_end);
  if (!has_one) violate("node " + std::to_string(node.name) + " starts workers without a lease");
}

void Simulation::check_start(const Node& node, const Layout& layout) {
  if (node.round) violate("node " + std::to_string(node.name) + " has workers already");
  if (elected_) check_recorded(node, layout);
  if (layout.restarts > spec_.max_restarts) {
    violate("restart " + std::to_string(layout.restarts) + " of " +
            std::to_string(spec_.max_restarts));
  }
  for (const auto& other : nodes_) {
    if (!other->round) continue;
    const Round theirs(other->round_master, *other->round);
    const Round ours(node.master, layout.round);
    if (theirs == ours) continue;
    if (other->suspended || other->woken) {
      ++counts_.of_suspended_host;
    } else if (theirs.first != ours.first &&
               !was_told_of(std::min(theirs, ours), std::max(theirs, ours))) {
      ++counts_.of_unknown_round;  // no node had told the new master of the old round
    } else if (other->unguarded) {
      ++counts_.of_unguarded_agent;
    } else if (other->hosting && is_being_killed(*other)) {
      ++counts_.of_killed_master;  // it was started again within milliseconds
    } else {
      violate(round_text(ours) + " on node " + std::to_string(node.name) + ", " +
              round_text(theirs) + " on node " + std::to_string(other->name));
    }
  }
}

/// Once the master has read a failure, it waits only for the leases of nodes that were out of reach
/// then.
void Simulation::expect_end_of_round(const Node& sender, const message::Fail& fail) {
  const auto runs = [this, round = fail.round] {
    const rendezvous::Round& now = sessions_->round();
    return now.phase() == rendezvous::Round::Phase::active && now.state().round == round;
  };
  const auto is_sender = [host = "host " + std::to_string(sender.name)](const auto& entry) {
    return entry.second.request.host == host && entry.second.state == NodeState::running;
  };
  if (!runs() || std::ranges::none_of(sessions_->round().nodes(), is_sender)) return;
  const Duration longest = eviction_timeout(lease_.lease) + lease_.heartbeat;
  after(longest, [this, runs, changes = master_changes_, name = sender.name] {
    if (!master_runs() || master_changes_ != changes || !runs()) return;
    violate("a failure on node " + std::to_string(name) + " still waits after a lease");
  });
}

/// An elected master's successors know each round that it announced, and the end of the job.
void Simulation::check_recorded(const Node& node, const Layout& layout) {
  if (has_ended_) violate("a round begins, though a node was told the end of the job");
  const int master = numbers_.try_emplace(layout.round, node.master).first->second;
  if (master != node.master) violate("two masters have a round " + std::to_string(layout.round));
}

bool Simulation::was_told_of(const Round& other, const Round& at_start_of) const {
  if (elected_) return true;  // the state in etcd tells
  const auto found = told_then_.find(at_start_of);
  if (found == told_then_.end()) return false;
  const Told& told = found->second;
  // If nodes told of another master but of no round, that master may have any round.
  return told.rounds.contains(other) || (told.rounds.empty() && told.of_another);
}

bool Simulation::is_being_killed(const Node& node) const {
  return node.killed && now_ - node.killed_at <= std::chrono::milliseconds(kKernelsTime);
}

/// The sender's hello tells the master of an earlier one, and of the round if its workers run.
void Simulation::hear_of_round(const Node& sender, const message::Hello& hello) {
  const std::string ours = "master " + std::to_string(masters_) + "/";
  if (hello.ticket.empty() || hello.ticket.starts_with(ours)) return;
  told_.of_another = true;
  if (sender.round && sender.round_master != masters_) {
    told_.rounds.insert({sender.round_master, *sender.round});
  }
}

void Simulation::check_end() {
  for (const auto& node : nodes_) {
    if (node->finished || node->dead || node->killed) continue;
    violate("node " + std::to_string(node->name) + " was never answered");
  }
  if (sessions_ && sessions_->is_ending() && !sessions_->settled()) {
    violate("the master waits for ever for " + sessions_->waiting_for(now_));
  }
  if (rounds_while_settling_ > 4 + 3 * static_cast<long>(nodes_.size())) {
    violate(std::to_string(rounds_while_settling_) + " rounds though nothing failed");
  }
}

}  // namespace ddprun::simulation
