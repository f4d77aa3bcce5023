// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/client.h"

namespace ddprun::doctor {

/// Returns the value of each key, in their order, once all are there or `limit` is over; nullopt
/// for missing ones. Errors: the store is lost.
Result<std::vector<std::optional<std::string>>> collect(store::Client& store,
                                                        const std::vector<std::string>& keys,
                                                        std::chrono::milliseconds limit);

/// Whether the command line is that of a node's part in `ddprun doctor`: ddprun starts it as a
/// node's only worker.
bool is_node(const std::vector<std::string>& words);

/// The first word of its command line; the order follows.
inline constexpr const char* kNodeWord = "--doctor_node";

/// Does a node's part: sends its facts to the others through the job's store, tries to reach them,
/// and on rank 0 prints the report. Returns the exit code: 0; 1 on rank 0 if the report names a
/// failure; 125 if it failed itself (stderr says why).
int run_node(const std::vector<std::string>& words);

}  // namespace ddprun::doctor
