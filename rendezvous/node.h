// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ddprun::rendezvous {

/// One connected agent, as the server numbers them. A connection that breaks and comes back within
/// its lease keeps its id; an agent that was declared gone gets a new one.
using NodeId = std::uint64_t;

/// What the job asks of every round.
struct RoundSpec {
  int min_nodes = 1;  ///< 1 <= min_nodes <= max_nodes
  int max_nodes = 1;
  int max_restarts = 0;                             ///< for the whole job; regrouping is free
  std::chrono::milliseconds join_timeout{600'000};  ///< below min_nodes for so long: the job ends
  std::chrono::milliseconds last_call{30'000};      ///< between min and max: wait so long for more
};

/// What a node says when it wants to take part. It says so again for each round, when its workers
/// of the round before are reaped. Numbers are sane: whoever decodes them checks.
struct JoinRequest {
  int local_size = 1;            ///< workers on this node, 1 to 65536
  std::optional<int> node_rank;  ///< --node_rank; a node's first word on it stays
  std::string host;              ///< for people
  bool is_host = false;          ///< it lives on the rendezvous host: gets node rank 0

  // What it knows of earlier rounds, from its last Layout: a master that came back learns it.
  int last_round = -1;  ///< -1: was in none
  int last_node_rank = -1;
  int restarts = 0;  ///< the highest count it was told
};

/// Where a node is in its own cycle.
enum class Place {
  waiting,    ///< it joined and waits for a round
  running,    ///< member of the active round
  finished,   ///< member of the active round, all its workers ended with 0
  returning,  ///< told that its round is broken, has not joined again yet
};

/// A node that joined and is not gone, as Round sees it.
struct Node {
  NodeId id = 0;
  JoinRequest request;
  std::uint64_t order = 0;  ///< of its first join
  Place place = Place::waiting;
  int last_round = -1;           ///< it was in, of those that this Round started; -1: none
  std::optional<int> node_rank;  ///< in that round
};

using Nodes = std::map<NodeId, Node>;

}  // namespace ddprun::rendezvous
