// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

/// Reads the clocks of these CPUs, in milliseconds, by which the kernel notes when a thread ran
/// last. Each CPU has its own, without the time that interrupts and other virtual machines took
/// from it, so they drift apart, by minutes in weeks. A thread on each CPU calls `read`. Leaves out
/// CPUs on which this process may not run, or does not within 0.2 s, as when a real-time task holds
/// one. For any thread.
std::map<int, double> cpu_clocks(const std::set<int>& cpus,
                                 const std::function<std::optional<double>()>& read);

/// The kernel's view of a process's main thread at one moment. Sampling does not disturb it.
struct ProcessSample {
  char state = '?';     ///< as in ps: 'R', 'S', 'D', 'T' ...; '?': ended, or unknown
  bool traced = false;  ///< by a debugger or profiler, which may have stopped it
  std::string call;     ///< the system call that blocks it: "futex", "call 999"; or empty
  double load = 0;      ///< the share of a CPU that it wanted in the last 0.1 s, 0 to 1
  std::optional<std::chrono::milliseconds> still;  ///< how long it has not run; nullopt: unknown
  bool frozen = false;                             ///< by its control group, as docker pause does
};

/// Reads /proc of `pid`, and the states of its control groups. Takes some 100 µs. Without `still`.
ProcessSample sample_process(pid_t pid);

/// Samples each process, and sets `still` for those that do not run. Reads the clocks of their
/// CPUs, which takes up to 0.2 s if one of these is busy. Another CPU's clock replaces a clock that
/// is not read by then; they differ by less than a second, on old hosts by more. For any thread.
std::vector<ProcessSample> sample_processes(const std::vector<pid_t>& pids);

/// When the calling thread ran last, on the clock of its CPU (cpu_clocks), in milliseconds.
std::optional<double> last_run_of_this_thread();

/// The kernel's function in which the main thread of `pid` waits, "futex_do_wait"; empty: it does
/// not wait, or this process may not know.
std::string wait_channel(pid_t pid);

/// The CPU and the time at which a process ran last.
struct LastRun {
  int cpu = 0;
  double when = 0;     ///< in milliseconds of that CPU's clock
  double started = 0;  ///< when the process started, in milliseconds of CLOCK_BOOTTIME
};

/// How long it has not run if its CPU's clock is at `clock` and CLOCK_BOOTTIME at `now`. Never
/// longer than the process has lived.
std::chrono::milliseconds time_still(const LastRun& run, double clock, double now);

/// Returns the text of the file `name` of /proc/`pid`; empty: the process is gone, or it is not
/// ours to read.
std::string proc_text(pid_t pid, const std::string& name);

/// Returns the path of the executable of `pid`; empty: as for proc_text.
std::string executable_of(pid_t pid);

/// Returns the numbers among the names in a folder, such as the pids in /proc.
std::vector<pid_t> numbers_in_folder(const std::string& path);

// Parsers.

/// Parses the text of /proc/PID/stat; leaves `when` unset. nullopt: malformed.
std::optional<LastRun> parse_last_run(const std::string& stat);

/// The rest of the line that begins with `name` in a text of /proc, without spaces, tabs and a
/// colon before it; empty: there is no such line.
std::string_view proc_value(std::string_view text, std::string_view name);

/// The number at the beginning of that value; 0: there is none.
std::uint64_t proc_number(std::string_view text, std::string_view name, int base = 10);

/// The state and `traced` in the text of /proc/PID/status.
ProcessSample parse_proc_status(std::string_view status);

/// The name of the system call in the text of /proc/PID/syscall; empty if the thread is in none.
std::string parse_proc_syscall(std::string_view text);

/// The number after `name` in the text of /proc/PID/sched.
std::optional<double> parse_proc_sched(std::string_view sched, std::string_view name);

}  // namespace ddprun::launcher
