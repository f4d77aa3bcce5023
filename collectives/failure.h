// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "ddp/error.h"

namespace ddp::internal {

/// A failure of ours as one of the public API, with "ddp: rank N: " in front.
Error to_error(int rank, const ddprun::Error& error);

/// "rank 3", "ranks 1, 2 and 7".
std::string name_ranks(const std::vector<int>& ranks);

/// "30 s", "250 ms".
std::string name_time(std::chrono::milliseconds time);

}  // namespace ddp::internal
