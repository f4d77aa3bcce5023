// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ddprun::cli {

/// The shared libraries with which a program of this machine's kind is linked (DT_NEEDED), without
/// the libraries that they need. None for a script, or a file that is no such program.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace ddprun::cli
