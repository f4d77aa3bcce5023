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

/// The server's number for an agent. An agent that reconnects within its lease keeps its id; an
/// agent that was declared lost gets a new one.
using NodeId = std::uint64_t;

/// A control connection's number in the process that holds it.
using ConnectionId = std::uint64_t;

/// A worker that failed before ddprun stopped it.
struct FailedWorker {
  int rank = 0;              ///< global rank
  std::string how;           ///< "exit 1", "killed by SIGABRT"
  bool consequence = false;  ///< its words are about a peer or a timeout, not about itself
  bool lost_peer = false;    ///< its words are about a peer that ended
};

/// The place of workers in a hang, or when another worker had failed and they still ran.
struct WorkerPlace {
  enum class Kind {
    unknown,     ///< it had just run, or could not be read
    waiting,     ///< blocked for long, in a call that may be a part of a collective
    collective,  ///< the same, and its stack shows the collective
    outside,     ///< the same, and its stack, perhaps incomplete, shows none
    busy,        ///< computing, or waiting for others without sleeping
    elsewhere,   ///< blocked for long, in a call in which no collective waits
    stopped,     ///< by a signal
    computing,   ///< busy, and its stack shows no collective
    ended,       ///< with exit code 0, while others ran on
    last = ended,
  };

  std::vector<int> ranks;  ///< global
  Kind kind = Kind::unknown;
  std::string what;  ///< "asleep (clock_nanosleep)"
  /// The least time that one of them had been there, or the time since it ended; 0: unknown.
  double seconds = 0;
};

/// The position of ranks in the order of a group's collective calls, as `ddp` or PyTorch counts
/// them.
struct CallPlace {
  std::uint64_t group = 0;  ///< the same on all ranks of the group
  std::uint64_t begun = 0;  ///< number of the last call that they have begun; 0: none
  std::uint64_t open = 0;   ///< number of the oldest that has not ended; 0: none
  std::string shown;        ///< that call, or else the last that has ended: "#121 all_reduce[8]"
  std::vector<int> ranks;   ///< global
  std::vector<std::string> recent{};  ///< the last that they have begun, as `shown`; may be unknown
  bool failed = false;                ///< they have ended by a failure: `open` is a guess
  std::string release{};              ///< of their library, "PyTorch 2.15.0"; empty: unknown
};

/// A node's report that its workers stopped making progress, or make progress again.
struct NodeProgress {
  int round = 0;
  bool quiet = false;               ///< no worker has made progress for the hang timeout
  double seconds = 0;               ///< the time without progress
  std::vector<WorkerPlace> places;  ///< where they are, if they are quiet
  std::vector<CallPlace> calls{};   ///< likewise
};

/// How a node's workers ended when their round was broken.
struct WorkerExits {
  std::vector<FailedWorker> failed;  ///< also the first one
  std::vector<int> stopped;          ///< global ranks that ended after ddprun's signal
  std::vector<int> killed;           ///< of these, the ones that needed SIGKILL
  std::string signal;                ///< the first one they got, "SIGTERM"; empty: none was stopped
  double seconds = 0;                ///< from then until all had ended
  /// The workers that had ended with 0, and the others if the failure looks like a consequence.
  std::vector<WorkerPlace> places;
  std::vector<CallPlace> calls{};  ///< likewise
};

/// Sent by a node that wants to take part in the next round, when its workers of the round before
/// are reaped. The numbers are in range: the decoder checks them.
struct JoinRequest {
  int local_size = 1;            ///< workers on this node, 1 to 65536
  std::optional<int> node_rank;  ///< --node_rank; the node's first request decides
  std::string host;              ///< its name
  bool is_host = false;          ///< it runs on the rendezvous host: gets node rank 0
  bool hosting = false;          ///< it is the master itself, and is lost with it
  int store_port = 0;            ///< a free port there for a store of rank 0; 0: the agents' store
  std::string cannot_run;  ///< why its workers cannot be started, if it knows: "cannot run ./train"
  std::string command;     ///< the workers' command, cut short, for messages
  std::uint64_t command_hash = 0;  ///< of the whole command
  std::string role{};              ///< --role, which may differ between nodes

  // Earlier rounds, from the node's last Layout: a master that was restarted learns them.
  int last_round = -1;        ///< -1: was in none
  std::string last_master{};  ///< reply::Welcome::master of that round; AgentSession sets it
  int last_node_rank = -1;
  int last_guests = 0;       ///< Layout::guests of that round
  bool last_hosted = false;  ///< that master was elected, and the node was its own
  int last_restarts = 0;     ///< Layout::restarts of that round
  int restarts = 0;          ///< the highest count it has received, >= last_restarts
  /// The failure of that round, if the node knows it and neither the next round nor the end has
  /// followed. A restarted master does not know it. Several nodes may report it.
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
  int last_round = -1;           ///< the last of this Round's that it was in; -1: none
  std::optional<int> node_rank;  ///< in that round
  int first_rank = 0;            ///< in that round
  int losses = 0;                ///< in a row, before it joined
};

using Nodes = std::map<NodeId, Node>;

}  // namespace ddprun::rendezvous
