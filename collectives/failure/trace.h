// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddp::internal {

/// Writes what the flight recorder has to rank_R.json in the folder that DDP_TRACE_DIR names, if it
/// does; `reason` is why. `rank` is this process's in the first group. Where that fails, a line on
/// stderr has to do: something worse has happened.
void write_trace_of_failure(int rank, const std::string& reason) noexcept;

}  // namespace ddp::internal
