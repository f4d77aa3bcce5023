// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/devices/gpu_wait.h"

namespace ddprun::launcher {

/// Resources that a process has used so far.
struct ProcessUse {
  pid_t pid = 0;
  pid_t parent = 0;
  std::uint64_t started =
      0;  ///< clock ticks after the host's start: tells processes with the same pid apart
  double cpu_seconds = 0;           ///< its own CPU time and that of its ended children
  std::uint64_t resident = 0;       ///< bytes of memory now
  std::uint64_t io_bytes = 0;       ///< read and written; 0: unknown
  bool traced = false;              ///< by a debugger, which may have stopped it
  std::vector<GpuWait> waits = {};  ///< of its threads; not searched for here
};

/// The use of one process, without io_bytes and `traced`; zeros if it has ended. Takes some 20 µs.
ProcessUse use_of_process(pid_t pid);

/// The names of ddprun's own processes beside the workers: one reads stacks, one serves MPI. Their
/// beginning and end are no sign of a worker's progress.
inline constexpr const char* kStackReader = "ddp-stacks";
inline constexpr const char* kMpiServer = "ddp-mpi";

/// All processes below `root`, by pid, without kStackReader, kMpiServer and their descendants; none
/// without /proc. Takes some 10 µs for each process of the host. For any thread.
std::vector<ProcessUse> uses_below(pid_t root);

/// The children of each process of the host, as uses_below() finds them, by their parents.
std::multimap<pid_t, pid_t> children_by_parent();

/// The changes between two samples of the processes, `seconds` apart.
struct UseChange {
  bool cpu = false;   ///< one of them used a processor for more than a twentieth of the time, not
                      ///< counting threads that wait for a GPU
  bool work = false;  ///< one read or wrote more than 16 KiB a second, or some began or ended
};
UseChange change_of(const std::vector<ProcessUse>& before, const std::vector<ProcessUse>& now,
                    double seconds);

/// The parent of a process, also if this has ended and was not reaped; 0: unknown.
pid_t parent_of(pid_t pid);

/// The rank of the worker that is this process or one of its ancestors; nullopt: no worker is.
/// `ranks` has the workers' ranks by pid.
std::optional<int> rank_of(pid_t pid, const std::map<pid_t, int>& ranks);

// Parsers.

/// Parses the text of /proc/PID/stat, without io_bytes and `traced`; nullopt: it is malformed, or
/// the process has ended.
std::optional<ProcessUse> parse_stat_use(const std::string& text);

/// The bytes read and written in the text of /proc/PID/io.
std::uint64_t parse_proc_io(const std::string& text);

}  // namespace ddprun::launcher
