// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/fd.h"

// Directories whose owner had no chance to remove them, because it was killed together with its
// guardian. An owner locks its directory, and the kernel ends the lock with the owner.

namespace ddprun::launcher {

/// Locks a directory that was just created, until the descriptor is closed. Empty: it cannot be
/// locked, or was taken for an abandoned one.
Fd lock_directory(const std::string& path);

/// Removes the directories of this user in `folder` whose name is `prefix` and six characters, and
/// that no process has locked. Ignores errors.
void remove_abandoned_dirs(const std::string& folder, const std::string& prefix);

}  // namespace ddprun::launcher
