// SPDX-License-Identifier: Apache-2.0
#include "launcher/process_use.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "base/fd.h"

namespace ddprun::launcher {
namespace {

constexpr size_t kMostStat = 4096;  // bytes of a file of /proc, which are shorter

std::string read_proc(pid_t pid, const char* name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kMostStat> bytes;
  const ssize_t size = file ? read(file.get(), bytes.data(), bytes.size()) : 0;
  return std::string(bytes.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

/// The number after `count` spaces.
std::uint64_t field(const std::string& text, int count) {
  size_t at = 0;
  for (; count > 0; --count) {
    at = text.find(' ', at);
    if (at++ == text.npos) return 0;
  }
  return std::strtoull(text.c_str() + at, nullptr, 10);
}

}  // namespace

ProcessUse process_use(pid_t pid) {
  ProcessUse use;
  const auto ticks = static_cast<double>(parse_cpu_ticks(read_proc(pid, "stat")));
  use.cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  use.resident = field(read_proc(pid, "statm"), 1) * static_cast<std::uint64_t>(getpagesize());
  return use;
}

std::uint64_t parse_cpu_ticks(std::string_view stat) {
  // PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS MINFLT CMINFLT MAJFLT CMAJFLT UTIME STIME
  // CUTIME CSTIME
  constexpr int kUserTime = 12;
  const size_t name = stat.rfind(')');
  if (name == stat.npos) return 0;
  const std::string rest(stat.substr(name + 1));
  std::uint64_t ticks = 0;
  for (int i = 0; i < 4; ++i) ticks += field(rest, kUserTime + i);
  return ticks;
}

}  // namespace ddprun::launcher
