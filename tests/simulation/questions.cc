// SPDX-License-Identifier: Apache-2.0
// Agents that ask each other, a node that stops the job, and workers that hang.
#include <csignal>
#include <utility>

#include "tests/simulation/simulation.h"

namespace ddprun::simulation {

using namespace rendezvous;
using std::chrono::seconds;
namespace event = agent::event;

namespace {

/// Longer than any round trip and any fault.
constexpr seconds kLongEnough{40};

const std::string kHost = "host ";

std::string question_text(int asker, std::uint64_t number) {
  return "question " + std::to_string(number) + " of node " + std::to_string(asker);
}

}  // namespace

// Questions.

void Simulation::ask(Node& node) {
  note("node ", node.name, " asks all nodes");
  in_agent(node, [this, &node] { perform(node, node.session.inquire(ListNodes{}, now_)); });
}

void Simulation::take_inquiry(Node& node, const Inquiry& inquiry) {
  if (const auto* list = std::get_if<NodeList>(&inquiry)) ask_listed(node, *list);
  if (const auto* inquired = std::get_if<Inquired>(&inquiry)) answer(node, *inquired);
  if (const auto* informed = std::get_if<Informed>(&inquiry)) take_answer(node, *informed);
  if (std::holds_alternative<StopJob>(inquiry) && !std::exchange(node.told_to_stop, true)) {
    note("node ", node.name, " is told to stop");
    handle(node, event::StopRequested{SIGTERM, false});
  }
}

void Simulation::ask_listed(Node& node, const NodeList& list) {
  for (const ListedNode& listed : list.nodes) {
    if (!listed.connected) continue;
    const std::uint64_t number = ++node.last_question;
    node.asked.emplace(number, listed.id);
    const Node& other = *nodes_[std::stoul(listed.host.substr(kHost.size()))];
    expect_calm({&node, &other}, [this, &node, &other, number] {
      if (!node.asked.contains(number)) return;
      violate("node " + std::to_string(node.name) + " has no answer from node " +
              std::to_string(other.name));
    });
    perform(node, node.session.inquire(Inquire{number, listed.id, question_text(node.name, number)},
                                       now_));
  }
}

void Simulation::answer(Node& node, const Inquired& inquired) {
  after(milliseconds(0, 2'000), [this, &node, inquired] {
    const Inform inform{inquired.asker, inquired.number, inquired.question};
    in_agent(node, [this, &node, inform] { perform(node, node.session.inquire(inform, now_)); });
  });
}

void Simulation::take_answer(Node& node, const Informed& informed) {
  const auto question = node.asked.find(informed.number);
  if (question == node.asked.end() || question->second != informed.node) {
    return violate("node " + std::to_string(node.name) + " has an answer that it did not ask for");
  }
  node.asked.erase(question);
  ++counts_.answers;
  if (informed.answer.empty()) return;  // there will be no answer
  if (informed.answer != question_text(node.name, informed.number)) {
    violate("node " + std::to_string(node.name) + " has the answer to " + informed.answer);
  }
}

/// Calls `check` later, unless until then one of the nodes or the master dies, ends, is out of
/// reach or stands still, or gets or loses a line.
void Simulation::expect_calm(const std::vector<const Node*>& nodes, std::function<void()> check) {
  std::vector<std::pair<const Node*, int>> before;
  before.reserve(nodes.size());
  for (const Node* node : nodes) before.emplace_back(node, node->changes);
  after(kLongEnough, [this, before, check = std::move(check), changes = master_changes_] {
    if (!master_runs() || master_changes_ != changes) return;
    for (const auto& [node, count] : before) {
      if (!node->runs() || node->finished || node->changes != count) return;
    }
    check();
  });
}

// The whole job is stopped.

void Simulation::stop_job(Node& node) {
  note("node ", node.name, " asks to stop the job");
  in_agent(node, [this, &node] { perform(node, node.session.inquire(StopJob{}, now_)); });
}

/// The master has read a node's request to stop the job.
void Simulation::check_stop() {
  ++counts_.stops;
  for (const auto& node : nodes_) {
    expect_calm({node.get()}, [this, &node = *node] {
      if (!node.told_to_stop)
        violate("node " + std::to_string(node.name) + " was not told to stop");
    });
  }
}

// Workers that hang.

void Simulation::hang(Node& node) {
  if (!node.round || node.suspended || std::exchange(node.hangs, true)) return;
  note("node ", node.name, ": its workers hang");
  tell_progress(node, true);
}

void Simulation::go_on(Node& node) {
  if (!node.round || node.suspended || !std::exchange(node.hangs, false)) return;
  note("node ", node.name, ": its workers go on");
  tell_progress(node, false);
}

void Simulation::tell_progress(Node& node, bool quiet) {
  in_agent(node, [this, &node, quiet, started = node.started] {
    if (node.started != started || !node.round) return;
    if (quiet) node.said_quiet = started;
    NodeProgress progress;
    progress.round = *node.round;
    progress.quiet = quiet;
    progress.seconds = quiet ? 60 : 0;
    perform(node, node.session.progress(std::move(progress), now_));
  });
}

/// The master has reported that the round hangs, so all of its nodes must have reported that.
void Simulation::check_hang() {
  ++counts_.hangs;
  const Round now(masters_, *rounds_started_.rbegin());
  for (const auto& node : nodes_) {
    if (!node->round || Round(node->round_master, *node->round) != now) continue;
    if (node->said_quiet == node->started) continue;
    violate("the round hangs, though node " + std::to_string(node->name) + " did not say so");
  }
}

}  // namespace ddprun::simulation
