// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// The nodes of a round, by node rank, as each tells the others. Pure.
struct MpiNodes {
  std::string name;                ///< of the round's namespace: no other round of any job has it
  std::vector<int> local_sizes;    ///< workers of each node
  std::vector<std::string> hosts;  ///< of each; several of one host have different names
};

/// A node's line for the others. `token` makes the name unique: that of node 0 counts.
std::string row_of(const rendezvous::Layout& layout, const std::string& host,
                   const std::string& token);

/// Reads the rows of all nodes, in any order. Errors: protocol.
Result<MpiNodes> parse_rows(std::string_view rows, const rendezvous::Layout& layout);

/// PMI_process_mapping: which ranks share a node, "(vector,(0,2,4))" for two nodes with four each.
std::string pmi1_mapping(const MpiNodes& nodes);

/// Files of MPICH 5 in /dev/shm that its ranks on that node leave when they are killed.
std::vector<std::string> mpich_files(const MpiNodes& nodes, int node_rank);

}  // namespace ddprun::agent
