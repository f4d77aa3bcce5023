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
// PR_SET_CHILD_SUBREAPER): orphans become its children, so no descendant can leave its tree.
//
// These functions work when no descriptor is left, because they hold a few in reserve. One thread.

namespace ddprun::launcher {

/// A process below this one.
struct Descendant {
  pid_t pid;
  pid_t parent;
  pid_t group;
  char state;        ///< of its main thread, as in ps; '?': unknown
  std::string name;  ///< at most 15 bytes, cut by the kernel; empty: unknown
  int threads = 0;   ///< that have not ended, and the main thread; 0: unknown
};

/// Whether all its threads have ended. If the main thread ends before the others, the kernel calls
/// the process a zombie although it still runs.
bool has_ended(const Descendant& process);

/// "pid 7 (dd)", "pid 7" without a name.
std::string process_text(const Descendant& process);

/// Parses the text of /proc/PID/stat; nullopt if it is malformed.
std::optional<Descendant> parse_proc_stat(const std::string& text);

/// The signals in the lines SigPnd and ShdPnd of /proc/PID/status, bit 0 for signal 1.
std::uint64_t parse_pending_signals(const std::string& text);

/// Reserves the descriptors now; otherwise the first use of a function below does.
void reserve_descriptors();

/// All processes below this one that have not ended, from /proc. A snapshot: processes start and
/// end while it is taken. If /proc shows no child though there is one (it is not mounted, belongs
/// to another pid namespace, or hides other users), a call finds only children, each call more of
/// them, and takes milliseconds. When a child dies, its children become ours.
std::vector<Descendant> descendants();

/// The same, and children that have ended but are not reaped, such as those that a tracer holds.
std::vector<Descendant> unreaped_descendants();

/// Whether the latest of these calls has not yet searched everywhere for children: call it again
/// after kSearchPause.
bool is_search_under_way();
inline constexpr std::chrono::milliseconds kSearchPause{20};

/// Names a child that /proc may hide from this process, as `hidepid` hides processes that only root
/// may trace. descendants() then includes it and its descendants all the same.
void expect_child(pid_t child);

/// A child that is no worker's, and all below it, belong to this process itself: descendants(),
/// unreaped_descendants() and has_children() do not count them, and reap_orphans() leaves it to its
/// owner. 0: none. Needs /proc.
void set_own_child(pid_t child);

/// Sends `signal` to `target` if that is still the listed process. An unreaped child gets it
/// directly, others through a pidfd after a check of their parent. So a process that reuses the pid
/// never gets the signal. Returns whether it was sent.
bool signal_descendant(const Descendant& target, int signal);

/// Sends `signal` to all descendants and the own child, also to those that start during this call.
void signal_all_descendants(int signal);

/// Whether process `pid` has blocked `signal`, got it, and has not read it. False without /proc.
bool has_pending_signal(pid_t pid, int signal);

/// Reaps ended children except `workers`, which Worker reaps.
void reap_orphans(const std::set<pid_t>& workers);

/// Whether this process has a child that was not reaped, besides its own one.
bool has_children();

/// Whether a child was stopped or continued, and nobody has asked about that child yet. One call,
/// instead of one for each child at each SIGCHLD.
bool has_paused_children();

/// Sends SIGKILL to all descendants, and reaps those that have ended. For a process that waits for
/// no child elsewhere.
void kill_and_reap_descendants();

/// Kills all descendants except the child `spared`, and waits until they are dead, reaped or not.
/// Waits at most a second, because a process may hang in the kernel.
void kill_all_descendants_but(pid_t spared);

}  // namespace ddprun::launcher
