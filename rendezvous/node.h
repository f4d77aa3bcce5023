// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/layout.h"
#include "rendezvous/spec.h"

namespace ddprun::rendezvous {

/// An agent, as the server numbers them. One that reconnects within its lease keeps its id; one
/// that was declared lost gets a new one.
using NodeId = std::uint64_t;

/// A worker that failed after the first one.
struct Victim {
  int rank = 0;              ///< global rank
  std::string how;           ///< "exit 1", "killed by SIGABRT"
  bool consequence = false;  ///< its words are about a peer or a timeout, not about itself
};

/// Where workers were when another one had failed and they were still left alone.
struct WorkerPlace {
  enum class Kind {
    unknown,     ///< it had just run, or could not be looked at
    waiting,     ///< blocked for long, in a call that may be a part of a collective
    collective,  ///< the same, and its stack shows the collective
    outside,     ///< the same, and its stack shows none, as far as that goes
    busy,        ///< computing, or waiting for others without sleeping
    elsewhere,   ///< blocked for long, in a call in which no collective waits
    stopped,     ///< by a signal
  };

  std::vector<int> ranks;  ///< global
  Kind kind = Kind::unknown;
  std::string what;    ///< "asleep (clock_nanosleep)"
  double seconds = 0;  ///< for which each of them had been there at least; 0: unknown
};

/// Where ranks are in the order of a group's collective calls, as `ddp` counts them.
struct CallPlace {
  std::uint64_t group = 0;  ///< the same on all ranks of the group
  std::uint64_t begun = 0;  ///< number of the last call that they have begun; 0: none
  std::uint64_t open = 0;   ///< of the oldest that has not ended; 0: they are in none
  std::string shown;        ///< that one, or else the last that has ended: "#121 all_reduce[8]"
  std::vector<int> ranks;   ///< global
};

/// Whether a node's workers make progress, as the node says when that changes.
struct NodeProgress {
  int round = 0;
  bool quiet = false;               ///< none of them has made any for the hang timeout
  double seconds = 0;               ///< for so long
  std::vector<WorkerPlace> places;  ///< where they are, if they are quiet
  std::vector<CallPlace> calls{};   ///< likewise
};

/// How a node's workers ended when their round was broken.
struct WorkerExits {
  std::vector<Victim> victims;      ///< failed before ddprun stopped them
  std::vector<int> stopped;         ///< global ranks that ended after ddprun's signal
  std::vector<int> killed;          ///< of these, the ones that needed SIGKILL
  std::string signal;               ///< the first one they got, "SIGTERM"; empty: none was stopped
  double seconds = 0;               ///< from then until all had ended
  std::vector<WorkerPlace> places;  ///< of those that ran, if the failure looks like a consequence
  std::vector<CallPlace> calls{};   ///< likewise
};

/// Sent by a node that wants to take part in the next round, when its workers of the round before
/// are reaped. The numbers are in range: the decoder checks them.
struct JoinRequest {
  int local_size = 1;            ///< workers on this node, 1 to 65536
  std::optional<int> node_rank;  ///< --node_rank; that of a node's first request is kept
  std::string host;              ///< for people
  bool is_host = false;          ///< it runs on the rendezvous host: gets node rank 0
  bool hosting = false;          ///< it is the master itself, and is lost with it
  int store_port = 0;            ///< free there for a store that rank 0 hosts; 0: the agents' store
  std::string cannot_run;  ///< why its workers cannot be started, if it knows: "cannot run ./train"
  std::string command;     ///< that its workers run, cut short; for people
  std::uint64_t command_hash = 0;  ///< of the whole command
  std::string role{};              ///< --role, which may differ between nodes

  // Earlier rounds, from the node's last Layout: a master that was restarted learns them.
  int last_round = -1;        ///< -1: was in none
  std::string last_master{};  ///< reply::Welcome::master of that round; AgentSession sets it
  int last_node_rank = -1;
  int last_guests = 0;       ///< Layout::guests of that round
  bool last_hosted = false;  ///< that master was elected and in its process, and was no guest
  int last_restarts = 0;     ///< Layout::restarts of that round
  int restarts = 0;          ///< the highest count it has received, >= last_restarts
  /// Why that round failed, as far as this node knows, while neither the next round nor the end has
  /// followed: news to a master that was restarted. Any number of nodes may tell of it.
  std::optional<Failure> unreported_failure;

  WorkerExits worker_exits;  ///< of that round
};

/// A node's state in Round.
enum class NodeState {
  waiting,    ///< it joined and waits for a round
  held,       ///< it joined, but was lost again and again: it has to wait for a while first
  running,    ///< member of the active round
  finished,   ///< member of the active round, all its workers ended with 0
  returning,  ///< was notified that its round is broken, has not joined again yet
  leaving,    ///< takes no further part, but its workers have not ended yet
};

/// A node that joined and is not lost.
struct Node {
  NodeId id = 0;
  JoinRequest request;
  std::uint64_t order = 0;  ///< of its first join
  NodeState state = NodeState::waiting;
  int last_round = -1;           ///< it was in, of those that this Round started; -1: none
  std::optional<int> node_rank;  ///< in that round
  int first_rank = 0;            ///< in that round
  int losses = 0;                ///< in a row, before it joined
};

using Nodes = std::map<NodeId, Node>;

}  // namespace ddprun::rendezvous
