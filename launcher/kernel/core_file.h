// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher {

/// The glob(3) pattern for the core of process `pid`. `pattern` is the text of core_pattern(5);
/// unknown parts of the name become *. `adds_pid`: core_uses_pid is set. Empty: the kernel pipes
/// the core to a program. A parser.
std::string core_glob(std::string_view pattern, bool adds_pid, pid_t pid);

/// The core of `pid`, which has died a moment ago and was started in this process's folder: a path,
/// or the command that shows it (coredumpctl). Empty: unknown. Reads files; for any thread.
std::string find_core(pid_t pid);

}  // namespace ddprun::launcher
