// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/diagnosis/stack_tree.h"
#include "base/error.h"

// The stacks of a node, or of several that were merged, as text for a terminal and as JSON, which
// is also how they go to another node. Pure.

namespace ddprun::agent {

struct Stacks {
  struct Host {
    std::string name;
    std::vector<int> ranks;
  };

  std::vector<Host> hosts;         ///< one for each node
  std::vector<std::string> notes;  ///< what could not be read and why, each once
  size_t more_notes = 0;           ///< that there was no room for; some may be the same
  StackTree tree;
};

/// How large the JSON of one node may be, so that it fits into an answer to another node.
inline constexpr size_t kMostStacksJson = 47 * 1024;

/// Those of one node. Of deep stacks so much is left out that its JSON is not too large.
Stacks stacks_of_node(const std::string& host, const std::vector<RankStack>& ranks,
                      const std::vector<std::string>& notes);

/// Adds those of other nodes to `into`.
void merge_stacks(Stacks& into, const Stacks& from);

/// For a terminal, of at most about `most_lines` lines: ranks in the same place as one, large
/// groups first. Without a newline at its end.
std::string stacks_text(const Stacks& stacks, size_t most_lines = 40);

/// One line. docs/diagnosis.md describes it.
std::string stacks_json(const Stacks& stacks);

/// The JSON of a node that has these ranks; what it says of others is left out. Errors: protocol.
Result<Stacks> parse_stacks(std::string_view json, int first_rank, int local_size);

/// The JSON of any number of nodes. Errors: protocol.
Result<Stacks> parse_stacks(std::string_view json);

}  // namespace ddprun::agent
