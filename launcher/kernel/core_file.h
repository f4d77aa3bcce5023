// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher {

/// The name of the core of process `pid` as `pattern`, the text of core_pattern(5), gives it, for
/// glob(3): what is not known of the process is a *. `adds_pid`: core_uses_pid is set. Empty: the
/// core goes to a program. A parser.
std::string core_glob(std::string_view pattern, bool adds_pid, pid_t pid);

/// Where the kernel has left the core of `pid`, which has begun in this process's folder and died a
/// moment ago: a path, or the command that shows it (coredumpctl). Empty: unknown. Reads files; for
/// any thread.
std::string find_core(pid_t pid);

}  // namespace ddprun::launcher
