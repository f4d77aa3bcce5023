// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ddprun::doctor {

/// Whether the command line is that of a node's part in `ddprun doctor`, which ddprun starts as the
/// only worker of a node.
bool is_node(const std::vector<std::string>& words);

/// The first words of its command line; the order follows.
inline constexpr const char* kNodeWord = "--doctor_node";

/// A node's part: tells its facts to the others through the job's store, tries to reach them, and
/// on rank 0 prints the report. The exit code: 0; 1 on rank 0 if there is a failure, which the
/// report has named; 125 if it could not get that far, which is on stderr.
int run_node(const std::vector<std::string>& words);

}  // namespace ddprun::doctor
