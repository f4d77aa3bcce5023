// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/process_group.h"

namespace ddp::internal {

/// "float32[100]".
std::string describe(const Buffer& buffer);

/// Returns if every rank of the group gives the same lines. Else throws on all of them the same
/// ddp::Error of kind mismatch, which names rank 0, the first rank whose lines are others, and the
/// first line in which these two differ: lines are to say what they are, as in "parameter 3
/// float32[100]". `what` the lines are of is told, too. Costs a few bytes for each rank where all
/// is well.
void check_same_lines(ProcessGroup& group, const std::string& what,
                      const std::vector<std::string>& lines);

/// Throws the text on every rank, as a ddp::Error of this kind, where `root` has one that is not
/// empty: what only one rank does fails on all of them.
void check_succeeded(ProcessGroup& group, ErrorKind kind, const std::string& text, int root);

}  // namespace ddp::internal
