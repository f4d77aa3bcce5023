// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddp::internal {

/// Writes the flight recorder's calls to rank_R.json in the folder that DDP_TRACE_DIR names, if it
/// is set; `rank` is that of this process in the first group. Reports a file that cannot be written
/// on stderr, and no more: the failure that is `reason` comes first.
void write_trace_of_failure(int rank, const std::string& reason) noexcept;

}  // namespace ddp::internal
