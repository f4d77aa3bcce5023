// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::rendezvous {

/// One connected agent, as the server numbers them. A connection that breaks and comes back within
/// its lease keeps its id; an agent that was declared gone gets a new one.
using NodeId = std::uint64_t;

/// What the job asks of every round.
struct RoundSpec {
  using milliseconds = std::chrono::milliseconds;

  int min_nodes = 1;  ///< 1 <= min_nodes <= max_nodes
  int max_nodes = 1;
  int max_restarts = 0;             ///< for the whole job; regrouping is free
  milliseconds restart_window{0};   ///< max_restarts are allowed within any such time; 0: in all
  milliseconds restart_backoff{0};  ///< before the first restart; doubles with each, to 5 minutes
  milliseconds min_uptime{0};       ///< a round that fails sooner is not restarted; 0: any is
  milliseconds join_timeout{600'000};  ///< below min_nodes for so long: the job ends
  milliseconds last_call{30'000};      ///< between min and max: wait so long for more
  /// How long workers of a node that is out of reach may run on. A master that comes back waits so
  /// long for those it does not hear from. 0: they do not.
  milliseconds lease{0};
};

/// A worker that failed after the first one.
struct Victim {
  int rank = 0;     ///< global rank
  std::string how;  ///< "exit 1", "killed by SIGABRT"
};

/// What became of a node's workers when their round was broken.
struct WorkerExits {
  std::vector<Victim> victims;  ///< ended badly before ddprun stopped them
  std::vector<int> stopped;     ///< global ranks that ended after ddprun's signal
  std::vector<int> killed;      ///< of these, the ones that needed SIGKILL
  std::string signal;           ///< the first one they got, "SIGTERM"; empty: nobody was stopped
  double seconds = 0;           ///< from then until nothing was left
};

/// What a node says when it wants to take part. It says so again for each round, when its workers
/// of the round before are reaped. Numbers are sane: whoever decodes them checks.
struct JoinRequest {
  int local_size = 1;            ///< workers on this node, 1 to 65536
  std::optional<int> node_rank;  ///< --node_rank; a node's first word on it stays
  std::string host;              ///< for people
  bool is_host = false;          ///< it lives on the rendezvous host: gets node rank 0
  bool hosting = false;          ///< it is the master itself, and is lost with it
  int store_port = 0;            ///< free there for a store that rank 0 hosts; 0: the agents' store

  // What it knows of earlier rounds, from its last Layout: a master that came back learns it.
  int last_round = -1;  ///< -1: was in none
  int last_node_rank = -1;
  int last_guests = 0;  ///< Layout::guests of that round
  int restarts = 0;     ///< the highest count it was told

  WorkerExits aftermath;  ///< of that round
};

/// Where a node is in its own cycle.
enum class NodeState {
  waiting,    ///< it joined and waits for a round
  running,    ///< member of the active round
  finished,   ///< member of the active round, all its workers ended with 0
  returning,  ///< told that its round is broken, has not joined again yet
  leaving,    ///< takes no further part, but its workers have not ended yet
};

/// A node that joined and is not gone, as Round sees it.
struct Node {
  NodeId id = 0;
  JoinRequest request;
  std::uint64_t order = 0;  ///< of its first join
  NodeState state = NodeState::waiting;
  int last_round = -1;           ///< it was in, of those that this Round started; -1: none
  std::optional<int> node_rank;  ///< in that round
};

using Nodes = std::map<NodeId, Node>;

}  // namespace ddprun::rendezvous
