// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/core_file.h"

#include <chrono>
#include <filesystem>
#include <glob.h>
#include <iterator>
#include <system_error>

#include "base/file_text.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

/// An older core of the same name belongs to another process.
constexpr std::chrono::minutes kNew{1};

std::string kernel_setting(const std::string& name) {
  const std::string text = file_text("/proc/sys/kernel/" + name);
  return text.substr(0, text.find('\n'));
}

bool is_new_file(const std::string& path) {
  std::error_code gone;
  const fs::file_status status = fs::symlink_status(path, gone);
  if (gone || status.type() != fs::file_type::regular) return false;
  const auto written = fs::last_write_time(path, gone);
  return !gone && fs::file_time_type::clock::now() - written < kNew;
}

/// Empty unless exactly one match is new: of several, none is known to be the right one.
std::string only_match(const std::string& pattern) {
  glob_t found{};
  std::string match;
  int matches = 0;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      if (!is_new_file(found.gl_pathv[i])) continue;
      match = found.gl_pathv[i];
      ++matches;
    }
  }
  globfree(&found);
  return matches == 1 ? match : "";
}

}  // namespace

std::string core_glob(std::string_view pattern, bool adds_pid, pid_t pid) {
  if (pattern.empty() || pattern.starts_with('|')) return "";
  std::string text;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      text += pattern[i];
    } else if (++i == pattern.size()) {
      break;
    } else if (pattern[i] == '%') {
      text += '%';
    } else if (pattern[i] == 'p') {
      text += std::to_string(pid);
      has_pid = true;
    } else {
      text += '*';
    }
  }
  return adds_pid && !has_pid ? text + "." + std::to_string(pid) : text;
}

std::string find_core(pid_t pid) {
  const std::string pattern = kernel_setting("core_pattern");
  std::error_code gone;
  // In a container the pattern is the host's, and the process has another pid there.
  const bool to_systemd = pattern.find("systemd-coredump") != std::string::npos &&
                          fs::exists("/run/systemd/system", gone);
  if (to_systemd) return "shown by: coredumpctl info " + std::to_string(pid);
  const std::string glob = core_glob(pattern, kernel_setting("core_uses_pid") == "1", pid);
  const std::string found = glob.empty() ? "" : only_match(glob);
  return found.empty() ? "" : fs::absolute(found, gone).string();
}

}  // namespace ddprun::launcher
