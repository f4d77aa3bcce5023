// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/oom.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "base/file_text.h"
#include "base/number.h"
#include "base/text.h"

namespace ddprun::launcher {
namespace {

/// The number after `label` in `text`.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == text.npos) return std::nullopt;
  return leading_number<std::uint64_t>(text.substr(at + label.size()));
}

/// Whether `item` is one of the pieces of `list`.
bool lists(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    if (take_piece(list, ',') == item) return true;
  }
  return false;
}

/// Our path in the hierarchy of `controller`, from the text of /proc/self/cgroup. The v2 hierarchy
/// has the controller "". nullopt: no such hierarchy.
std::optional<std::string_view> cgroup_in(std::string_view cgroup, std::string_view controller) {
  while (!cgroup.empty()) {
    std::string_view line = take_piece(cgroup, '\n');
    const std::string_view id = take_piece(line, ':');
    const std::string_view controllers = take_piece(line, ':');
    if (controller.empty() ? id == "0" : lists(controllers, controller)) {
      return line;
    }
  }
  return std::nullopt;
}

/// The directory of cgroup `path` in the mount of type `type` with `option` among its options.
std::string cgroup_directory(std::string_view mountinfo, std::string_view path,
                             std::string_view type, std::string_view option) {
  while (!mountinfo.empty()) {
    const std::string_view line = take_piece(mountinfo, '\n');
    const size_t dash = line.find(" - ");  // optional fields precede the dash
    if (dash == line.npos) continue;
    std::string_view after = line.substr(dash + 3);
    if (take_piece(after, ' ') != type) continue;
    take_piece(after, ' ');  // the device
    if (!option.empty() && !lists(after, option)) continue;

    std::string_view before = line;
    for (int i = 0; i < 3; ++i) take_piece(before, ' ');  // mount, parent and device numbers
    const std::string_view root = take_piece(before, ' ');
    const std::string_view mount_point = take_piece(before, ' ');
    // In a container the root of the mount may be our own cgroup.
    if (root != "/" && path.starts_with(root)) path.remove_prefix(root.size());
    return std::string(mount_point) + (path == "/" ? "" : std::string(path));
  }
  return "";
}

}  // namespace

std::optional<OomKill> parse_oom_kill(std::string_view record) {
  std::string_view text = kernel_message(record);

  constexpr std::string_view kKilled = "Killed process ";
  const size_t at = text.find(kKilled);
  const std::string_view before = text.substr(0, at);
  if (at == text.npos || !(before.empty() || before == "Out of memory: " ||
                           before == "Memory cgroup out of memory: " ||
                           before == "Out of memory (oom_kill_allocating_task): ")) {
    return std::nullopt;
  }
  text.remove_prefix(at + kKilled.size());
  const auto pid = leading_number<std::uint64_t>(text);
  if (!pid) return std::nullopt;

  text.remove_prefix(std::min(text.rfind(')'), text.size()));  // the name may contain anything
  std::uint64_t kilobytes = 0;
  for (const char* part : {"anon-rss:", "file-rss:", "shmem-rss:"}) {
    kilobytes += number_after(text, part).value_or(0);
  }
  return OomKill{static_cast<pid_t>(*pid), kilobytes * 1024};
}

std::optional<std::uint64_t> parse_oom_count(std::string_view file) {
  while (!file.empty()) {
    std::string_view line = take_piece(file, '\n');
    if (take_piece(line, ' ') == "oom_kill") return leading_number<std::uint64_t>(line);
  }
  return std::nullopt;
}

std::string oom_count_path(std::string_view cgroup, std::string_view mountinfo) {
  const bool v1 = cgroup_in(cgroup, "memory").has_value();  // otherwise v2 has the controller
  const auto path = cgroup_in(cgroup, v1 ? "memory" : "");
  if (!path || path->find("/..") != path->npos) return "";  // outside our cgroup namespace
  const std::string directory = v1 ? cgroup_directory(mountinfo, *path, "cgroup", "memory")
                                   : cgroup_directory(mountinfo, *path, "cgroup2", "");
  if (directory.empty()) return "";
  return directory + (v1 ? "/memory.oom_control" : "/memory.events");
}

std::string memory_text(std::uint64_t bytes) {
  constexpr double kMiB = 1 << 20;
  const double mib = static_cast<double>(bytes) / kMiB;
  std::array<char, 32> text;
  if (mib < 1024) {
    std::snprintf(text.data(), text.size(), "%.0f MiB", mib);
  } else {
    std::snprintf(text.data(), text.size(), "%.1f GiB", mib / 1024);
  }
  return text.data();
}

OomWatch::OomWatch(const std::string& kmsg, const std::string& proc_self) {
  if (in_initial_pid_namespace(proc_self)) log_.emplace(KernelLog::From::now, kmsg);
  const std::string path =
      oom_count_path(file_text(proc_self + "/cgroup"), file_text(proc_self + "/mountinfo"));
  if (!path.empty()) count_.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  count_at_begin_ = count();
}

std::string OomWatch::cause(pid_t pid, int signal) {
  read_log();
  const auto named = std::find_if(kills_.begin(), kills_.end(),
                                  [pid](const OomKill& kill) { return kill.pid == pid; });
  if (signal == SIGKILL && named != kills_.end()) {
    return "out of memory (this host's kernel killed it at " + memory_text(named->resident_bytes) +
           " resident)";
  }
  const auto now = count();
  if (!now || !count_at_begin_ || *now <= *count_at_begin_) return "";
  if (signal == SIGKILL && !(log_ && log_->is_readable())) {
    return "out of memory (this host's kernel killed a process of its cgroup for that)";
  }
  return "perhaps out of memory: this host's kernel killed another process of its cgroup for that";
}

void OomWatch::read_log() {
  if (!log_) return;
  log_->read([this](std::string_view record) {
    if (const auto kill = parse_oom_kill(record)) kills_.push_back(*kill);
  });
}

std::optional<std::uint64_t> OomWatch::count() const {
  std::array<char, 4096> text;
  const ssize_t size = pread(count_.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return parse_oom_count({text.data(), static_cast<size_t>(size)});
}

}  // namespace ddprun::launcher
