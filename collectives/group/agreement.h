// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddp/process_group.h"

namespace ddp::internal {

/// "float32[100]".
std::string describe(const Buffer& buffer);

/// Checks that every rank of the group passes the same lines. If not, throws the same ddp::Error of
/// kind mismatch on all ranks: "ranks do not agree on WHAT", with rank 0, the first rank whose
/// lines differ, and the first line that differs. So a line should describe itself, as in
/// "parameter 3 float32[100]". If the ranks agree, this costs a few bytes per rank.
void check_same_lines(ProcessGroup& group, const std::string& what,
                      const std::vector<std::string>& lines);

/// Throws `text` of `root` on every rank, as a ddp::Error of this kind, unless it is empty. So a
/// step that only `root` does fails on all ranks.
void check_succeeded(ProcessGroup& group, ErrorKind kind, const std::string& text, int root);

}  // namespace ddp::internal
