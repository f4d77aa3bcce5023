// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ddprun::cli {

/// The shared libraries that a program of this machine's kind is linked with (DT_NEEDED), without
/// those that they need; none for a script, or a file that is no such program.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace ddprun::cli
