// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/ask/arrivals.h"
#include "agent/ask/status.h"
#include "agent/diagnosis/stacks.h"
#include "rendezvous/wire/inquiry.h"

namespace ddprun::agent::ask {

/// A node's answer to a question that all were asked.
struct NodeAnswer {
  rendezvous::ListedNode node;  ///< as the master knows it
  std::string answer;           ///< JSON, as the node says; empty: none
  std::string problem;          ///< why there is none
  Interval clock{};             ///< from the question to the answer, by this host's clock
};

/// The answers of a job's nodes.
struct NodeAnswers {
  std::vector<NodeAnswer> nodes;  ///< empty: the master did not list them
  std::string waiting;            ///< what the job waits for; may be empty
};

/// The status of the whole job: `own`, of the asked node, with all nodes. The master says where a
/// node is and which ranks it has; the node says the rest. Pure.
JobStatus whole_status(JobStatus own, const NodeAnswers& answers);

/// The stacks of the whole job. The master says which ranks a node has. If a node has not answered,
/// a note says why. Pure.
Stacks whole_stacks(const NodeAnswers& answers);

}  // namespace ddprun::agent::ask
