// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace ddp::internal {

/// Returns the number that this host's kernel has had since it began; empty: it is not known.
std::string boot_id();

/// The name of this process for wait_for_end(), without spaces: its kernel, pid namespace and pid.
std::string process_name();

/// Returns when the process of this name has ended, after `limit` at the latest. Returns at once
/// for this process and for one in another pid namespace, as on another host: it cannot be watched.
void wait_for_end(const std::string& process, std::chrono::milliseconds limit);

}  // namespace ddp::internal
