// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun {

/// Returns all of a file, such as one of /proc; empty if it cannot be read. Blocks as long as the
/// disk does.
std::string file_text(const std::string& path);

}  // namespace ddprun
