// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

// All processes that this process started, directly or not. For a child subreaper (prctl(2),
// PR_SET_CHILD_SUBREAPER): an orphan becomes its child, so no descendant can leave its tree.
//
// They work when no descriptor is left: a few are held in reserve. Thread: one.

namespace ddprun::launcher {

/// A process below this one.
struct Descendant {
  pid_t pid;
  pid_t parent;
  pid_t group;
  char state;        ///< as in ps; '?': unknown
  std::string name;  ///< at most 15 bytes, cut by the kernel; empty: unknown
};

/// Parses the text of /proc/PID/stat; nullopt if it is malformed.
std::optional<Descendant> parse_proc_stat(const std::string& text);

/// The signals in the lines SigPnd and ShdPnd of /proc/PID/status, bit 0 for signal 1.
std::uint64_t parse_pending_signals(const std::string& text);

/// Holds the reserve from now on; otherwise from the first use of a function below.
void reserve_descriptors();

/// All processes below this one except zombies, from /proc. A snapshot: processes start and end
/// meanwhile. Without /proc, or with that of another pid namespace, only the children: when they
/// die, theirs become ours.
std::vector<Descendant> descendants();

/// A child that /proc may hide from this process, as `hidepid` does with those that only root may
/// trace: descendants() has it, and those below it, all the same.
void expect_child(pid_t child);

/// Sends `signal` to `target` if it is still the listed process: to a child that was not reaped, or
/// else through a pidfd, after checking its parent, so a process that reuses the pid never gets the
/// signal. Returns whether it was sent.
bool signal_descendant(const Descendant& target, int signal);

/// Sends `signal` to all descendants, also to those that start meanwhile.
void signal_all_descendants(int signal);

/// Whether `signal` was sent to process `pid`, which has blocked it and has not read it. False
/// without /proc.
bool has_pending_signal(pid_t pid, int signal);

/// Describes processes that survive SIGKILL: "pid 7 (dd) is in uninterruptible sleep (D)";
/// empty: nothing.
std::string unkillable_text(const std::vector<Descendant>& processes);

/// Reaps ended children except `workers`, which Worker reaps.
void reap_orphans(const std::set<pid_t>& workers);

/// Whether this process has a child that was not reaped.
bool has_children();

/// Whether a child was stopped, or goes on, and nobody has asked about that child yet: one call,
/// where each of the children would be one, at each end of one of many.
bool has_paused_children();

/// Kills and reaps all descendants until none is left, also processes that fork meanwhile. Blocks,
/// and says what it waits for after some seconds. For a process that waits for no child elsewhere,
/// with SIGCHLD blocked.
void kill_all_descendants();

/// Kills all descendants except the child `spared`, and waits until they are dead, reaped or not;
/// at most a second, because a process may hang in the kernel.
void kill_all_descendants_but(pid_t spared);

}  // namespace ddprun::launcher
