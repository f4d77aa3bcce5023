// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

// Everything this process has started, directly or not. Meant for a process that is a child
// subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): orphans become its children, so nothing that was
// ever started can get out of its tree.

namespace ddprun::launcher {

/// A process below this one.
struct Descendant {
  pid_t pid;
  pid_t parent;
  pid_t group;
  std::string name;  ///< as the kernel abbreviates it (15 bytes)
};

/// Reads /proc/`pid`/stat text. nullopt: not such a line.
std::optional<Descendant> parse_proc_stat(const std::string& text);

/// All processes below this one, from /proc; zombies are left out. A snapshot: some may have
/// ended when the caller looks, and others begun.
std::vector<Descendant> descendants();

/// Sends `signal` to `target` if it still is the process that was listed: through a pidfd, after
/// checking that its parent is the same, so that a number used again is never hit. False: it was
/// not.
bool signal_descendant(const Descendant& target, int signal);

/// Reaps ended children except those in `others` (whose end somebody else waits for).
void reap_strays(const std::set<pid_t>& others);

/// Whether this process has a child, ended or not, that was not reaped.
bool has_children();

/// Kills and reaps everything below this process, over and over, until nothing is left: what
/// forks faster than it is killed ends too, because its parents are killed as well. Blocks. For a
/// process that waits for no child elsewhere.
void kill_all_descendants();

/// Kills everything below this process but its child `spared`, and waits until it is dead, reaped
/// or not; for a second at most, should the kernel not let go of one.
void kill_all_descendants_but(pid_t spared);

}  // namespace ddprun::launcher
