// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/descendants.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>

#include "base/blocking_io.h"
#include "base/fd.h"
#include "base/number.h"
#include "base/text.h"
#include "launcher/kernel/process_sample.h"

namespace ddprun::launcher {
namespace {

/// The highest pid that Linux assigns (PID_MAX_LIMIT).
constexpr pid_t kHighestPid = 4 * 1024 * 1024;

/// Trying so many pids takes a few milliseconds.
constexpr pid_t kPidsAtATime = 8192;

/// The descriptors that these functions need at a time: a process and its file.
std::array<Fd, 2>& spare_descriptors() {
  static std::array<Fd, 2> spare;
  return spare;
}

pid_t expected_child = 0;
pid_t own_child = 0;

/// Closes the reserved descriptors during its lifetime, so that others can be opened.
class BorrowedDescriptors {
 public:
  BorrowedDescriptors() {
    for (Fd& spare : spare_descriptors()) spare.reset();
  }
  BorrowedDescriptors(const BorrowedDescriptors&) = delete;
  BorrowedDescriptors& operator=(const BorrowedDescriptors&) = delete;
  ~BorrowedDescriptors() {
    for (Fd& spare : spare_descriptors()) spare.reset(eventfd(0, EFD_CLOEXEC));
  }
};

/// Whether /proc is mounted and shows the pids of our namespace. `unshare --pid` alone keeps the
/// outer /proc, where our pids mean other processes.
bool has_own_proc() {
  char self[16] = {};
  return readlink("/proc/self", self, sizeof self - 1) > 0 && std::atoi(self) == getpid();
}

/// Whether `pid` is a child that was not reaped, so that no other process can have its pid.
/// `running`: and has not ended.
bool is_child(pid_t pid, bool running = false) {
  siginfo_t info = {};
  const int found = waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return found == 0 && (!running || info.si_pid == 0);
}

/// Finds children by trying pids, because nothing else lists them. Each look tries the pids after
/// our own, those near the last child found (where its children are), and another part.
class ChildSearch {
 public:
  std::vector<Descendant> look() {
    std::set<pid_t> now;
    for (const pid_t pid : found_) try_pid(pid, now);
    try_part(getpid(), now);
    try_part(near_, now);
    try_part(next_, now);
    next_ = (next_ + kPidsAtATime) % kHighestPid;
    untried_ = now == found_ ? std::max(0, untried_ - kPidsAtATime) : kHighestPid;
    for (const pid_t pid : now) {
      if (found_.count(pid) == 0) near_ = pid;
    }
    found_ = std::move(now);
    std::vector<Descendant> children;
    for (const pid_t pid : found_) children.push_back(child(pid));
    return children;
  }

  /// Whether it has tried all pids since the set of found children last changed.
  bool is_complete() const { return untried_ == 0; }

  static Descendant child(pid_t pid) { return {pid, getpid(), getpgid(pid), '?', ""}; }

 private:
  static void try_pid(pid_t pid, std::set<pid_t>& found) {
    if (is_child(pid, true)) found.insert(pid);
  }

  static void try_part(pid_t first, std::set<pid_t>& found) {
    for (pid_t pid = first; pid < first + kPidsAtATime; ++pid) try_pid(pid % kHighestPid, found);
  }

  std::set<pid_t> found_;
  pid_t near_ = getpid();
  pid_t next_ = 0;
  pid_t untried_ = kHighestPid;
};

std::optional<ChildSearch> child_search;  // nullopt: /proc shows the children

/// The pids that /proc shows. Avoids opendir(3), which takes 32 KiB of memory: if these are not
/// left, a search would take seconds and find no grandchildren.
std::vector<pid_t> all_pids() {
  const Fd proc(has_own_proc() ? open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  std::vector<pid_t> pids;
  alignas(dirent64) char entries[4096];
  while (const auto size = syscall(SYS_getdents64, proc.get(), entries, sizeof entries)) {
    if (size < 0) break;
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      if (const auto pid = whole_number<pid_t>(entry->d_name, 1)) pids.push_back(*pid);
      at += entry->d_reclen;
    }
  }
  return pids;
}

bool has_any_child() {
  siginfo_t info = {};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// All processes below this one, including those that have ended but were not reaped, without
/// `spared` and all below it.
std::vector<Descendant> all_below(pid_t spared) {
  const BorrowedDescriptors borrowed;
  std::unordered_map<pid_t, std::vector<Descendant>> children;
  for (const pid_t pid : all_pids()) {
    if (std::optional<Descendant> process = parse_proc_stat(proc_text(pid, "stat"))) {
      children[process->parent].push_back(std::move(*process));
    }
  }
  std::vector<Descendant>& own = children[getpid()];
  const auto is_expected = [](const Descendant& child) { return child.pid == expected_child; };
  if (expected_child != 0 && std::none_of(own.begin(), own.end(), is_expected) &&
      is_child(expected_child, true)) {
    own.push_back(ChildSearch::child(expected_child));
  }
  if (!own.empty() || !has_any_child()) {
    child_search.reset();
  } else {
    if (!child_search) child_search.emplace();
    own = child_search->look();
  }
  std::vector<Descendant> found;
  std::vector<pid_t> to_visit = {getpid()};
  while (!to_visit.empty()) {
    const pid_t parent = to_visit.back();
    to_visit.pop_back();
    for (const Descendant& child : children[parent]) {
      if (child.pid == spared) continue;
      to_visit.push_back(child.pid);
      found.push_back(child);
    }
  }
  return found;
}

}  // namespace

/// Format: pid (comm) state ppid pgrp ... priority nice num_threads. comm may contain blanks and
/// parentheses; the last ')' ends it.
std::optional<Descendant> parse_proc_stat(const std::string& text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  int pid = 0, parent = 0, group = 0, threads = 0;
  char state = 0;
  if (std::sscanf(text.c_str(), "%d", &pid) != 1) return std::nullopt;
  constexpr const char* kFields =
      " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d";
  if (std::sscanf(text.c_str() + close + 1, kFields, &state, &parent, &group, &threads) < 3) {
    return std::nullopt;
  }
  return Descendant{pid, parent, group, state, text.substr(open + 1, close - open - 1), threads};
}

bool has_ended(const Descendant& process) {
  return (process.state == 'Z' || process.state == 'X') && process.threads <= 1;
}

std::string process_text(const Descendant& process) {
  return "pid " + std::to_string(process.pid) +
         (process.name.empty() ? "" : " (" + printable(process.name) + ")");
}

std::uint64_t parse_pending_signals(const std::string& text) {
  return proc_number(text, "SigPnd", 16) | proc_number(text, "ShdPnd", 16);
}

void expect_child(pid_t child) {
  expected_child = child;
}

void reserve_descriptors() {
  const BorrowedDescriptors returned;
}

void set_own_child(pid_t child) {
  own_child = child;
}

std::vector<Descendant> descendants() {
  std::vector<Descendant> all = all_below(own_child);
  std::erase_if(all, has_ended);
  return all;
}

std::vector<Descendant> unreaped_descendants() {
  std::vector<Descendant> all = all_below(own_child);
  std::erase_if(all, [](const Descendant& process) {
    return has_ended(process) && process.parent != getpid();
  });
  return all;
}

bool is_search_under_way() {
  return child_search && !child_search->is_complete();
}

bool signal_descendant(const Descendant& target, int signal) {
  if (is_child(target.pid)) return kill(target.pid, signal) == 0;
  const BorrowedDescriptors borrowed;
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, target.pid, 0)));
  if (!pidfd) return false;
  const std::optional<Descendant> now = parse_proc_stat(proc_text(target.pid, "stat"));
  if (!now || now->parent != target.parent) return false;
  return syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

void signal_all_descendants(int signal) {
  std::set<pid_t> sent;
  for (bool found = true; found;) {
    found = false;
    for (const Descendant& process : all_below(0)) {
      if (has_ended(process)) continue;
      if (sent.count(process.pid) != 0 || !signal_descendant(process, signal)) continue;
      sent.insert(process.pid);
      found = true;
    }
  }
}

bool has_pending_signal(pid_t pid, int signal) {
  if (!has_own_proc()) return false;
  const BorrowedDescriptors borrowed;
  const std::uint64_t pending = parse_pending_signals(proc_text(pid, "status"));
  return ((pending >> (signal - 1)) & 1) != 0;
}

void reap_orphans(const std::set<pid_t>& workers) {
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (workers.count(info.si_pid) != 0 || info.si_pid == own_child)
      return;  // Worker reaps it, then this is called again
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

bool has_children() {
  return has_any_child() && (own_child == 0 || !unreaped_descendants().empty());
}

bool has_paused_children() {
  siginfo_t info = {};
  constexpr int kLook = WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT;
  return waitid(P_ALL, 0, &info, kLook) == 0 && info.si_pid != 0;
}

void kill_and_reap_descendants() {
  for (const Descendant& process : descendants()) signal_descendant(process, SIGKILL);
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void kill_all_descendants_but(pid_t spared) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (;;) {
    std::vector<Descendant> left = descendants();
    std::erase_if(left, [spared](const Descendant& process) { return process.pid == spared; });
    if (left.empty() || std::chrono::steady_clock::now() >= end) return;
    for (const Descendant& process : left) signal_descendant(process, SIGKILL);
    const BorrowedDescriptors borrowed;
    const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, left.front().pid, 0)));
    if (pidfd) wait_for(pidfd.get(), POLLIN, end);
  }
}

}  // namespace ddprun::launcher
