// SPDX-License-Identifier: Apache-2.0
#include "agent/failure_traces.h"

#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/core_file.h"

namespace ddprun::agent {
namespace {

/// Less than a line: a full disk may have some bytes left.
constexpr unsigned long long kNoSpace = 4096;

bool is_disk_full(const std::string& file) {
  struct statvfs disk{};
  if (statvfs(file.c_str(), &disk) != 0) return false;
  const auto blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return disk.f_blocks > 0 && blocks * disk.f_frsize < kNoSpace;
}

}  // namespace

std::string full_disk_text(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (is_disk_full(file)) {
      return "no space left on the disk of its log file " + file +
             ", which may lack its last words";
    }
  }
  return "";
}

std::string core_of(launcher::ExitStatus status, pid_t pid) {
  const bool dumped = WIFSIGNALED(status.wait_status()) && WCOREDUMP(status.wait_status());
  return dumped ? launcher::find_core(pid) : "";
}

}  // namespace ddprun::agent
