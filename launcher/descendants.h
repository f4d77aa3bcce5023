// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

// All processes that this process started, directly or not. For a child subreaper (prctl(2),
// PR_SET_CHILD_SUBREAPER): an orphan becomes its child, so no descendant can leave its tree.

namespace ddprun::launcher {

/// A process below this one.
struct Descendant {
  pid_t pid;
  pid_t parent;
  pid_t group;
  std::string name;  ///< at most 15 bytes, cut by the kernel
};

/// Parses the text of /proc/PID/stat; nullopt if it is malformed.
std::optional<Descendant> parse_proc_stat(const std::string& text);

/// All processes below this one except zombies, from /proc. A snapshot: processes start and end
/// meanwhile.
std::vector<Descendant> descendants();

/// Sends `signal` to `target` if it is still the listed process: through a pidfd, after checking
/// its parent, so a process that reuses the pid never gets the signal. Returns whether it was sent.
bool signal_descendant(const Descendant& target, int signal);

/// Reaps ended children except `workers`, which Worker reaps.
void reap_orphans(const std::set<pid_t>& workers);

/// Whether this process has a child that was not reaped.
bool has_children();

/// Kills and reaps all descendants until none is left, also processes that fork meanwhile. Blocks.
/// For a process that waits for no child elsewhere.
void kill_all_descendants();

/// Kills all descendants except the child `spared`, and waits until they are dead, reaped or not;
/// at most a second, because a process may hang in the kernel.
void kill_all_descendants_but(pid_t spared);

}  // namespace ddprun::launcher
