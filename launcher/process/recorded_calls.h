// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/worker_calls.h"

namespace ddprun::launcher {

// The places of PyTorch's workers in the order of their groups' collective calls, as PyTorch's
// flight recorder counts them. A worker writes them as a line of JSON: at its socket, or into a
// file when an exception ends it (agent/worker/recorder_hook.h).

/// Asks the workers at these sockets, all at once, and waits for `limit`: those that have not
/// answered by then, or that have no socket, have no calls. For any thread; blocks.
std::vector<std::vector<WorkerCall>> recorded_calls(const std::vector<std::string>& sockets,
                                                    std::chrono::milliseconds limit);

/// The calls in the file that a worker has left; none: there is no such file.
std::vector<WorkerCall> left_calls(const std::string& file);

/// The calls in a worker's line; none: it is another text.
std::vector<WorkerCall> parse_recorded_calls(std::string_view json);

}  // namespace ddprun::launcher
