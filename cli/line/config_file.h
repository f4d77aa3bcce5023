// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

namespace ddprun::cli {

/// The text of a configuration file. `named`: the user has named it. Else it was found, and counts
/// only if nobody but this user and root could have put it there: a regular file, no link, owned by
/// one of the two, and not writable by everybody. nullopt: none was found.
///
/// Errors: usage; the sentence follows the file's name: "cannot be read: ...".
Result<std::optional<std::string>> read_config_file(const std::string& path, bool named);

}  // namespace ddprun::cli
