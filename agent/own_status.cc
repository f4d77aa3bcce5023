// SPDX-License-Identifier: Apache-2.0
#include "agent/own_status.h"

#include <utility>

#include "agent/job/command_line.h"
#include "agent/master/master.h"

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

ask::NodeStatus own_node(const JobSpec& job, OwnPart part) {
  ask::NodeStatus node;
  node.host = std::move(part.host);
  node.pid = part.pid;
  node.state = part.importing.empty() ? state_name(part.state) : part.importing;
  node.local_size = job.local_size;
  node.ranks = std::move(part.ranks);
  if (part.layout != nullptr) {
    node.node_rank = part.layout->node_rank;
    node.first_rank = part.layout->first_rank;
    node.local_size = part.layout->local_size;
  }
  return node;
}

}  // namespace

ask::JobStatus own_status(const JobSpec& job, OwnPart part) {
  ask::JobStatus status;
  status.job = job_name(job);
  status.master = master_endpoint(job).text();
  status.session = part.session;
  status.program = command_text(job);
  status.state = state_name(part.state);
  status.restarts = part.restarts;
  status.max_restarts = job.max_restarts;
  status.seconds = part.seconds;
  if (part.layout != nullptr) {
    status.round = part.layout->round;
    status.world_size = part.layout->world_size;
    status.node_count = part.layout->node_count;
  }
  status.nodes.push_back(own_node(job, std::move(part)));
  return status;
}

}  // namespace ddprun::agent
