// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/diagnosis/stack_tree.h"
#include "base/error.h"

// The stacks of a node, or the merged ones of several, as text for a terminal and as JSON. Nodes
// send each other the JSON. Pure.

namespace ddprun::agent {

struct Stacks {
  struct Host {
    std::string name;
    std::vector<int> ranks;
  };

  std::vector<Host> hosts;         ///< one for each node
  std::vector<std::string> notes;  ///< what could not be read and why, each once
  size_t more_notes = 0;           ///< notes without room here; some may be equal
  StackTree tree;
};

/// How large the JSON of one node may be, so that it fits into an answer to another node.
inline constexpr size_t kMostStacksJson = 47 * 1024;

/// The stacks of one node. Leaves out so much of deep stacks that the JSON is not too large.
Stacks stacks_of_node(const std::string& host, const std::vector<RankStack>& ranks,
                      const std::vector<std::string>& notes);

/// Adds the stacks of other nodes to `into`.
void merge_stacks(Stacks& into, const Stacks& from);

/// Text for a terminal, of at most about `most_lines` lines. Ranks in the same place are one group;
/// large groups come first. It ends without a newline.
std::string stacks_text(const Stacks& stacks, size_t most_lines = 40);

/// One line. docs/diagnosis.md describes it.
std::string stacks_json(const Stacks& stacks);

/// Parses the JSON of a node that has these ranks; ignores other ranks. Errors: protocol.
Result<Stacks> parse_stacks(std::string_view json, int first_rank, int local_size);

/// Parses the JSON of any number of nodes. Errors: protocol.
Result<Stacks> parse_stacks(std::string_view json);

}  // namespace ddprun::agent
