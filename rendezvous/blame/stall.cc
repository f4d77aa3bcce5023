// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/blame/stall.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/text.h"
#include "rendezvous/blame/suspect.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostText = 4'000;  // < kMaxText: a message keeps only the end of a longer text
constexpr int kTimedOut = 124 << 8;  // as wait(2) gives the exit code of timeout(1)

bool has_rank(const Node& node, int rank) {
  return node.state == NodeState::running && rank >= node.first_rank &&
         rank - node.first_rank < node.request.local_size;
}

int lowest_rank(const Nodes& nodes) {
  int lowest = INT_MAX;
  for (const auto& [id, node] : nodes) {
    if (node.state == NodeState::running) lowest = std::min(lowest, node.first_rank);
  }
  return lowest;
}

/// The place of a node's workers, all of which have ended.
WorkerPlace ended_place(const Node& node) {
  WorkerPlace place = {{}, WorkerPlace::Kind::ended, "ended with exit code 0"};
  place.ranks.resize(static_cast<size_t>(node.request.local_size));
  std::iota(place.ranks.begin(), place.ranks.end(), node.first_rank);
  return place;
}

Suspect suspect_of(const std::map<NodeId, NodeProgress>& quiet, const Nodes& nodes) {
  Suspect suspect;
  const auto add = [&suspect](const Node& node, const WorkerExits& seen) {
    suspect.add(seen, node.request.host, node.first_rank, node.request.local_size);
  };
  for (const auto& [id, node] : nodes) {
    if (node.state != NodeState::finished) continue;
    WorkerExits ended;
    ended.places = {ended_place(node)};
    add(node, ended);
  }
  for (const auto& [id, progress] : quiet) {
    const auto node = nodes.find(id);
    if (node == nodes.end() || node->second.state != NodeState::running) continue;
    WorkerExits seen;
    seen.places = progress.places;
    seen.calls = progress.calls;
    add(node->second, seen);
  }
  return suspect;
}

}  // namespace

void Stall::heard(const Node& node, const NodeProgress& progress) {
  if (node.state != NodeState::running || node.last_round != progress.round) return;
  if (std::exchange(round_, progress.round) != progress.round) {
    quiet_.clear();
    reported_ = false;
  }
  if (progress.quiet) {
    quiet_[node.id] = progress;
  } else {
    quiet_.erase(node.id);
  }
}

/// Compares the numbers first: with many nodes, most reports come before the last one.
bool Stall::are_all_quiet(const Nodes& nodes, int running) const {
  if (running == 0 || quiet_.size() < static_cast<size_t>(running)) return false;
  const bool all = std::ranges::all_of(nodes, [this](const auto& entry) {
    const Node& node = entry.second;
    if (node.state != NodeState::running) return true;
    return node.last_round == round_ && quiet_.contains(node.id);
  });
  // Workers that compute make progress, unless all others show that they wait for them.
  return all && (!any_computes() || suspect_of(quiet_, nodes).named().has_value());
}

bool Stall::any_computes() const {
  return std::ranges::any_of(quiet_, [](const auto& entry) {
    return std::ranges::any_of(entry.second.places, [](const WorkerPlace& place) {
      return place.kind == WorkerPlace::Kind::computing;
    });
  });
}

bool Stall::is_of_this_round(const Nodes& nodes) const {
  return std::ranges::any_of(nodes, [this](const auto& entry) {
    return entry.second.state == NodeState::running && entry.second.last_round == round_;
  });
}

Stall::News Stall::look(const Nodes& nodes, int running) {
  if (reported_ && !is_of_this_round(nodes)) reported_ = false;  // the round ended otherwise
  const bool all = are_all_quiet(nodes, running);
  if (std::exchange(reported_, all) == all) return News::none;
  return all ? News::stalled : News::over;
}

double Stall::seconds() const {
  double least = quiet_.begin()->second.seconds;
  for (const auto& [id, progress] : quiet_) least = std::min(least, progress.seconds);
  return least;
}

std::string Stall::text(const Nodes& nodes) const {
  const std::chrono::duration<double> quiet(seconds());
  return cut("no rank has made progress for " +
                 duration_text(std::chrono::duration_cast<std::chrono::nanoseconds>(quiet)) +
                 " (round " + std::to_string(round_) + ")\n" +
                 suspect_of(quiet_, nodes).stall_text(),
             kMostText);
}

Failure Stall::failure(const Nodes& nodes) const {
  Failure failure;
  failure.hung = true;
  const std::optional<int> named = suspect_of(quiet_, nodes).named();
  const bool runs = named && node_of(*named, nodes) != 0;  // else all workers of its node ended
  failure.rank = runs ? *named : lowest_rank(nodes);
  failure.wait_status = kTimedOut;
  failure.host = nodes.at(node_of(failure.rank, nodes)).request.host;
  failure.cause = text(nodes);
  return failure;
}

NodeId Stall::node_of(int rank, const Nodes& nodes) {
  const auto found = std::ranges::find_if(
      nodes, [rank](const auto& entry) { return has_rank(entry.second, rank); });
  return found == nodes.end() ? 0 : found->first;
}

}  // namespace ddprun::rendezvous
