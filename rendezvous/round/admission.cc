// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/admission.h"

#include <algorithm>
#include <climits>

#include "rendezvous/membership_text.h"

namespace ddprun::rendezvous {
namespace {

using std::to_string;
using Refusal = std::optional<std::string>;

/// The most rounds that an earlier master can have been ahead of this one.
constexpr int kMostRoundsAhead = 1'000'000;

/// The limit if --max_restarts has a window: one restart a minute for two years.
constexpr int kMostRestarts = 1'000'000;

const JoinRequest& first_of(const Nodes& nodes) {
  return nodes.begin()->second.request;
}

/// "gpu-07 runs './train'".
std::string runs_text(const JoinRequest& request) {
  return name_text(request.host) + " runs '" + name_text(request.command) + "'";
}

std::string reports(const std::string& what, int value, const std::string& against) {
  return "it reports " + what + " " + to_string(value) + ", but " + against;
}

/// A restarted master believes nodes' reports of earlier rounds, unless they are impossible.
Refusal impossible_report(const JoinRequest& request, const Job& job) {
  const int max_nodes = job.spec.max_nodes;
  const std::string nodes = "the job has --nnodes " + nnodes_text(job.spec);
  if (request.local_size > INT_MAX / max_nodes) {
    return reports("a number of workers of", request.local_size, nodes + ": that is too many");
  }
  if (request.last_node_rank >= max_nodes) {
    return reports("the node rank", request.last_node_rank, nodes);
  }
  if (request.last_guests > max_nodes) {
    return reports("a number of nodes of", request.last_guests, nodes);
  }
  if (job.last_round >= 0 && request.last_round - job.last_round > kMostRoundsAhead) {
    return reports("round", request.last_round, "the job is in round " + to_string(job.last_round));
  }
  if (request.last_round < 0 && (request.restarts > 0 || request.unreported_failure)) {
    return "it reports restarts or a failure, but no round";
  }
  const bool has_window = job.spec.restart_window > job.spec.restart_window.zero();
  const int most_restarts = has_window ? kMostRestarts : job.spec.max_restarts;
  if (request.restarts > most_restarts) {
    return reports("a number of restarts of", request.restarts,
                   "the job allows " + to_string(most_restarts) + " (--max_restarts)");
  }
  return std::nullopt;
}

/// While a job forms, nothing distinguishes its nodes from those of another job. An earlier master
/// let in each node that reports a round.
Refusal other_command(const JoinRequest& request, const Job& job) {
  const bool is_new = !job.commands.empty() && request.last_round < 0;
  if (!is_new || job.commands.contains(request.command_hash)) return std::nullopt;
  const std::string known = job.nodes.empty() ? "" : " (" + runs_text(first_of(job.nodes)) + ")";
  return "it runs '" + name_text(request.command) +
         "', which no node of this job ran when it began" + known +
         ": use another port (--rdzv_endpoint) for another job, or run what a node of this one "
         "runs";
}

Refusal wrong_node_rank(const JoinRequest& request, const Job& job) {
  if (!request.node_rank) {
    if (job.rank_holders.empty()) return std::nullopt;
    return "--node_rank is given on " +
           job.nodes.at(job.rank_holders.begin()->second).request.host +
           " but not here: give it on every node or on none";
  }
  const int rank = *request.node_rank;
  if (rank < 0 || rank >= job.spec.max_nodes) return out_of_range(rank, job.spec);
  const auto stays = [](const auto& node) { return node.second.state != NodeState::leaving; };
  if (job.rank_holders.empty()) {
    const auto other = std::find_if(job.nodes.begin(), job.nodes.end(), stays);
    if (other == job.nodes.end()) return std::nullopt;
    return "--node_rank is given here but not on " + other->second.request.host +
           ": give it on every node or on none";
  }
  const auto holder = job.rank_holders.find(rank);
  if (holder == job.rank_holders.end()) return std::nullopt;
  return "node_rank " + to_string(rank) + " is already taken by " +
         job.nodes.at(holder->second).request.host;
}

}  // namespace

Refusal refusal(const JoinRequest& request, const Job& job) {
  if (Refusal sentence = impossible_report(request, job)) return sentence;
  if (Refusal sentence = other_command(request, job)) return sentence;
  if (Refusal sentence = wrong_node_rank(request, job)) return sentence;
  // Before the first round the others wait for this node, so they have to know. Later it is only a
  // new node.
  if (job.last_round >= 0 && !request.cannot_run.empty()) return request.cannot_run;
  return std::nullopt;
}

std::string other_command_text(const JoinRequest& request, const Nodes& nodes) {
  if (nodes.empty() || first_of(nodes).command_hash == request.command_hash) return "";
  return runs_text(request) + ", and " + runs_text(first_of(nodes)) +
         ": nodes of one job may run different commands, but another job needs another port "
         "(--rdzv_endpoint)";
}

}  // namespace ddprun::rendezvous
