// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/exit_status.h"

namespace ddprun::agent {

// Traces of a failure on its host, beside the worker's own words. Each function reads files, which
// may take as long as their disk does; for any thread.

/// A cause: no space is left on the disk of one of its log `files`. Empty: there is.
std::string full_disk_text(const std::vector<std::string>& files);

/// Where the core of process `pid` is, which ended with `status`: a path, or what shows it. Empty:
/// it left none, or not where it is looked for.
std::string core_of(launcher::ExitStatus status, pid_t pid);

}  // namespace ddprun::agent
