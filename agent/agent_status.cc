// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <unistd.h>
#include <utility>

#include "agent/agent.h"
#include "agent/command_line.h"
#include "base/log.h"

namespace ddprun::agent {
namespace {

std::string state_name(Machine::State state) {
  switch (state) {
    case Machine::State::joining:
      return "joining";
    case Machine::State::running:
      return "running";
    case Machine::State::stopping:
      return "stopping";
    case Machine::State::draining:
      return "draining";
    case Machine::State::done:
      return "done";
  }
  return "";
}

}  // namespace

Answers::Hooks Agent::answers_hooks() {
  return {[this] { return status(); },
          [this](int rank, std::uint64_t from) { return workers_.log(rank, from); },
          [this] { return master_.is_open() && !master_.client().is_unreachable(); },
          [this](rendezvous::Inquiry inquiry) {
            if (master_.is_open()) master_.client().inquire(std::move(inquiry));
          },
          [this] { on_stop_asked(); }};
}

/// As if this ddprun had got SIGTERM. The master stays until the others have ended, too.
void Agent::on_stop_asked() {
  if (outcome_) return;
  log::info("stopping the whole job, as ddprun stop asks");
  on_signal(SIGTERM);
}

/// As this node knows the job; its own part is the only node in it.
ask::JobStatus Agent::status() const {
  const auto age = std::chrono::steady_clock::now() - began_;
  ask::NodeStatus node;
  node.host = host_name_;
  node.pid = getppid();
  node.state = state_name(machine_.state());
  node.local_size = job_.local_size;
  node.ranks = workers_.ranks();
  ask::JobStatus status;
  status.job = job_.run_id;
  status.master = master_endpoint(job_).text();
  status.session = master_name_;
  status.program = command_text(job_);
  status.state = node.state;
  status.restarts = restarts_;
  status.max_restarts = job_.max_restarts;
  status.seconds = std::chrono::duration<double>(age).count();
  if (was_member_) {
    status.round = layout_.round;
    status.world_size = layout_.world_size;
    status.node_count = layout_.node_count;
    node.node_rank = layout_.node_rank;
    node.first_rank = layout_.first_rank;
    node.local_size = layout_.local_size;
  }
  status.nodes.push_back(std::move(node));
  return status;
}

}  // namespace ddprun::agent
