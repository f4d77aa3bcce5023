// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/node.h"

// Questions of agents to each other through the master, when a user asks one of them about the job.
// They are not counted or repeated: an agent that gets no answer asks again, or reports that. An
// agent has only a few open questions, so that answers do not fill a line. Pure.

namespace ddprun::rendezvous {

/// The longest question, and the longest answer, in bytes. An answer has no control characters:
/// compact JSON has none.
inline constexpr size_t kMaxQuestion = 256;
inline constexpr size_t kMaxAnswer = 48 * 1024;

/// The most nodes in one list.
inline constexpr size_t kMaxListed = 500;

/// Asks the master for the nodes whose id is above `after`.
struct ListNodes {
  NodeId after = 0;
};

/// A node as the master knows it.
struct ListedNode {
  NodeId id = 0;
  std::string host;
  std::string state;   ///< of NodeState, in words
  int node_rank = -1;  ///< -1: in no round yet
  int first_rank = 0;
  int local_size = 1;
  double silent = 0;       ///< seconds since its last message to the master
  bool connected = false;  ///< it can be asked
};

struct NodeList {
  NodeId after = 0;  ///< of the question
  std::vector<ListedNode> nodes;
  bool more = false;    ///< there are nodes with higher ids
  std::string waiting;  ///< what the job waits for; empty while a round runs
};

/// To the master: asks a node.
struct Inquire {
  std::uint64_t number = 0;  ///< the asker's, for the answer
  NodeId node = 0;
  std::string question;
};

/// To a node: a question of the agent `asker`.
struct Inquired {
  NodeId asker = 0;
  std::uint64_t number = 0;
  std::string question;
};

/// To the master: the answer.
struct Inform {
  NodeId asker = 0;
  std::uint64_t number = 0;
  std::string answer;
};

/// To the asker. The master vouches for the node; what the answer says is the node's word.
struct Informed {
  std::uint64_t number = 0;
  NodeId node = 0;
  std::string answer;  ///< empty: the node cannot be asked
};

/// To the master: stop the whole job, as if each ddprun had got SIGTERM. The master sends it to
/// each agent; an agent without a line gets it when it is back.
struct StopJob {};

/// In both directions.
using Inquiry = std::variant<ListNodes, NodeList, Inquire, Inquired, Inform, Informed, StopJob>;

/// An answer that may be sent: `answer` itself, or empty if it is too long or has control
/// characters.
std::string answer_to_send(std::string answer);

/// The name of a state, for a list.
std::string state_text(NodeState state);

}  // namespace ddprun::rendezvous
