// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher {

/// The kernel's view of a process's main thread at one moment. The process does not notice.
struct ProcessSample {
  char state = '?';     ///< as in ps: 'R', 'S', 'D', 'T' ...; '?': it has ended, or unknown
  bool traced = false;  ///< by a debugger or profiler, which may have stopped it
  std::string call;     ///< the system call in which it is blocked: "futex", "call 999"; or empty
  double load = 0;      ///< the share of a CPU that it wanted in the last 0.1 s, 0 to 1
  std::optional<std::chrono::milliseconds> still;  ///< how long it has not run; nullopt: unknown
  bool frozen = false;                             ///< by its control group, as docker pause does
};

/// Reads /proc of `pid`, and the states of its control groups, some 100 µs.
ProcessSample sample_process(pid_t pid);

/// The kernel's function in which the main thread of `pid` waits, "futex_do_wait"; empty: none, or
/// this process may not know.
std::string wait_channel(pid_t pid);

// Parsers.

/// The state and `traced` in the text of /proc/PID/status.
ProcessSample parse_proc_status(std::string_view status);

/// The name of the system call in the text of /proc/PID/syscall; empty if it is in none.
std::string parse_proc_syscall(std::string_view text);

/// The number after `name` in the text of /proc/PID/sched.
std::optional<double> parse_proc_sched(std::string_view sched, std::string_view name);

}  // namespace ddprun::launcher
