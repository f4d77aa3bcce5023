// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace ddprun::rendezvous {

/// A node's place among the nodes of its role.
struct RolePlace {
  int first_rank = 0;  ///< ROLE_RANK of this node's local rank 0
  int world_size = 1;  ///< workers of that role on all nodes
};

/// A node's place in a round.
struct Layout {
  int round = 0;                  ///< counts every round of the job, from 0
  int restarts = 0;               ///< restarts spent so far; the same number on every node
  int node_rank = 0;              ///< 0 <= node_rank < node_count
  int node_count = 1;             ///< nodes in this round
  int first_rank = 0;             ///< global rank of this node's local rank 0
  int local_size = 1;             ///< workers on this node
  int world_size = 1;             ///< workers on all nodes
  int guests = 0;                 ///< nodes in this round whose agent is not the master itself
  std::optional<RolePlace> role;  ///< nullopt: all nodes have the same role

  // The address of a store that rank 0 hosts; 0 and empty: the agents' store, at the endpoint.
  int store_port = 0;
  std::string store_host;  ///< empty: the endpoint's, where node 0 lives
};

/// How the first worker of a node failed; nodes send it to each other. The agent makes sentences of
/// it. The rendezvous passes it on, and makes one itself if a node is lost again and again.
struct Failure {
  int rank = 0;         ///< global rank; the lowest of a node that was lost
  int wait_status = 0;  ///< as wait(2) gives it
  int pid = 0;          ///< 0: it could not be started, or was lost with its node; `cause` says why
  double seconds = 0;   ///< how long the worker ran
  std::string host;     ///< of the node it ran on
  std::string cause;    ///< more than the status says ("out of memory ..."); may be empty
  std::string stderr_tail;  ///< the end of its stderr, whole lines; may be empty
  std::string exception;    ///< that ended it ("RuntimeError: ..."); may be empty
  std::string traceback;    ///< the end of that exception's traceback, whole lines; may be empty
  bool hung = false;        ///< no rank made progress: `cause` has lines that say what each did
  std::string log_folder = {};  ///< of its log files, on its host; empty: it has none
};

/// All workers of all nodes ended with exit code 0.
struct Succeeded {};

/// A worker failed and the job was not restarted. Every node gets the same.
struct Failed {
  Failure root_cause;
  int round = 0;           ///< the one in which it failed
  std::string summary;     ///< whole lines on the others that failed or were stopped; may be empty
  std::string no_restart;  ///< why the round is not tried again: "no restart left (3 of 3 used)"
  std::string suspect = {};  ///< the ranks that `root_cause` waited for, in words; empty: unknown
};

/// Not enough nodes joined in time; the sentence names what was missing.
struct TimedOut {
  std::string sentence;
};

/// Why a job is over.
using Ending = std::variant<Succeeded, Failed, TimedOut>;

/// The state that the masters of a job leave to their successors.
struct JobState {
  int round = -1;                ///< the latest that was announced; -1: none
  int restarts = 0;              ///< spent so far
  std::optional<Ending> ending;  ///< the job is over
};

}  // namespace ddprun::rendezvous
