// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddprun::cli {

/// The path of the file that execvp(3) would execute for `name`: `name` itself if it has a slash,
/// else the first executable file of that name in `search_path` (colon-separated; an empty entry is
/// the current directory).
///
/// Errors: not_found (with the closest existing name), not_executable (a directory, a file without
/// execute permission, a path that may not be searched).
Result<std::string> find_program(const std::string& name, const std::string& search_path);

/// Whether `name` is a Python script: it ends in .py.
bool is_script(std::string_view name);

/// Checks that python can read the script `name`; does not search PATH. A directory passes: python3
/// runs a directory that contains __main__.py.
///
/// Errors: not_found (with the closest existing script), not_executable (no permission to read).
Result<> check_script(const std::string& name);

/// The shared libraries with which a program of this machine's kind is linked (DT_NEEDED), without
/// the libraries that they need. None for a script, or a file that is no such program.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace ddprun::cli
