// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/fd.h"

// Directories whose owner could not remove them, because it was killed together with its guardian.
// An owner locks its directory, and the kernel releases the lock when the owner ends.

namespace ddprun::launcher {

/// Locks a directory that was just created, until the descriptor is closed. Empty: it cannot be
/// locked, or another ddprun removed it as abandoned.
Fd lock_directory(const std::string& path);

/// Removes this user's unlocked directories in `folder` whose name is `prefix` and six characters.
/// Ignores errors.
void remove_abandoned_dirs(const std::string& folder, const std::string& prefix);

}  // namespace ddprun::launcher
