// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"

namespace ddprun::cli {

/// The path of the file that execvp(3) would execute for `name`: `name` itself when it has a
/// slash, else the first executable file of that name in `search_path` (colon-separated, an empty
/// entry being the current directory).
///
/// Errors: not_found (with the nearest name there is), not_executable (a directory, a file without
/// execute permission, a path that may not be searched).
Result<std::string> find_program(const std::string& name, const std::string& search_path);

}  // namespace ddprun::cli
