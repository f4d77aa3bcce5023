// SPDX-License-Identifier: Apache-2.0
#include "launcher/descendants.h"

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>

#include "base/fd.h"

namespace ddprun::launcher {
namespace {

/// The text of /proc/`pid`/stat; empty when the process is gone.
std::string read_stat(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  char text[512];  // the first five fields suffice
  const ssize_t size = read(file.get(), text, sizeof text);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (!proc) return pids;
  while (const dirent* entry = readdir(proc.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

/// pid (comm) state ppid pgrp ...; comm may contain blanks and parentheses; the last ')' ends it.
struct Stat {
  Descendant process;
  char state;
};

std::optional<Stat> parse(const std::string& text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  Stat stat = {};
  stat.process.name = text.substr(open + 1, close - open - 1);
  int pid = 0, parent = 0, group = 0;
  if (std::sscanf(text.c_str(), "%d", &pid) != 1) return std::nullopt;
  if (std::sscanf(text.c_str() + close + 1, " %c %d %d", &stat.state, &parent, &group) != 3) {
    return std::nullopt;
  }
  stat.process.pid = pid;
  stat.process.parent = parent;
  stat.process.group = group;
  return stat;
}

}  // namespace

std::optional<Descendant> parse_proc_stat(const std::string& text) {
  const std::optional<Stat> stat = parse(text);
  if (!stat) return std::nullopt;
  return stat->process;
}

std::vector<Descendant> descendants() {
  std::unordered_map<pid_t, std::vector<Stat>> children;
  for (const pid_t pid : all_pids()) {
    if (std::optional<Stat> stat = parse(read_stat(pid))) {
      children[stat->process.parent].push_back(std::move(*stat));
    }
  }
  std::vector<Descendant> found;
  std::vector<pid_t> to_visit = {getpid()};
  while (!to_visit.empty()) {
    const pid_t parent = to_visit.back();
    to_visit.pop_back();
    for (const Stat& child : children[parent]) {
      to_visit.push_back(child.process.pid);
      if (child.state != 'Z' && child.state != 'X') found.push_back(child.process);
    }
  }
  return found;
}

bool signal_descendant(const Descendant& target, int signal) {
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, target.pid, 0)));
  if (!pidfd) return false;
  const std::optional<Descendant> now = parse_proc_stat(read_stat(target.pid));
  // If its parent died since the snapshot, it is our child now.
  if (!now || (now->parent != target.parent && now->parent != getpid())) return false;
  return syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

void reap_orphans(const std::set<pid_t>& workers) {
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (workers.count(info.si_pid) != 0) return;  // Worker reaps it, then this is called again
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

bool has_children() {
  siginfo_t info = {};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void kill_all_descendants() {
  while (has_children()) {
    for (const Descendant& process : descendants()) signal_descendant(process, SIGKILL);
    waitpid(-1, nullptr, 0);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
}

void kill_all_descendants_but(pid_t spared) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(1);
  for (;;) {
    std::vector<Descendant> left = descendants();
    std::erase_if(left, [spared](const Descendant& process) { return process.pid == spared; });
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.empty() || time <= time.zero()) return;
    for (const Descendant& process : left) signal_descendant(process, SIGKILL);
    const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, left.front().pid, 0)));
    pollfd its_end = {pidfd.get(), POLLIN, 0};
    if (pidfd) poll(&its_end, 1, static_cast<int>(time.count()));
  }
}

}  // namespace ddprun::launcher
