// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddp::internal {

/// Writes the flight recorder's calls to rank_R.json in the folder that DDP_TRACE_DIR names, if it
/// is set; `rank` is this process's in the first group. If the file cannot be written, only reports
/// that on stderr: the failure that is `reason` comes first.
void write_trace_of_failure(int rank, const std::string& reason) noexcept;

}  // namespace ddp::internal
