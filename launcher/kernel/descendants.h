// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
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
  char state;        ///< of its main thread, as in ps; '?': unknown
  std::string name;  ///< at most 15 bytes, cut by the kernel; empty: unknown
  int threads = 0;   ///< that are left, and its main thread; 0: unknown
};

/// Whether no thread of it is left. The main thread of a process may end before the others: then
/// the kernel calls the process a zombie, but it runs on.
bool has_ended(const Descendant& process);

/// "pid 7 (dd)", "pid 7" without a name.
std::string process_text(const Descendant& process);

/// Parses the text of /proc/PID/stat; nullopt if it is malformed.
std::optional<Descendant> parse_proc_stat(const std::string& text);

/// The signals in the lines SigPnd and ShdPnd of /proc/PID/status, bit 0 for signal 1.
std::uint64_t parse_pending_signals(const std::string& text);

/// Holds the reserve from now on; otherwise from the first use of a function below.
void reserve_descriptors();

/// All processes below this one that have not ended, from /proc. A snapshot: processes start and
/// end meanwhile. If /proc shows no child though there is one (it is not mounted, is that of
/// another pid namespace, or hides other users' processes), only children, of which each call finds
/// more: when they die, theirs become ours. A call takes milliseconds then.
std::vector<Descendant> descendants();

/// The same, and the children that have ended and wait to be reaped, as those that a tracer holds.
std::vector<Descendant> unreaped_descendants();

/// Whether the latest of these calls has not yet looked everywhere for children: it has to be
/// called again after this pause.
bool is_search_under_way();
inline constexpr std::chrono::milliseconds kSearchPause{20};

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

/// Reaps ended children except `workers`, which Worker reaps.
void reap_orphans(const std::set<pid_t>& workers);

/// Whether this process has a child that was not reaped.
bool has_children();

/// Whether a child was stopped, or goes on, and nobody has asked about that child yet: one call,
/// where each of the children would be one, at each end of one of many.
bool has_paused_children();

/// Sends SIGKILL to all descendants, and reaps those that have ended. For a process that waits for
/// no child elsewhere.
void kill_and_reap_descendants();

/// Kills all descendants except the child `spared`, and waits until they are dead, reaped or not;
/// at most a second, because a process may hang in the kernel.
void kill_all_descendants_but(pid_t spared);

}  // namespace ddprun::launcher
