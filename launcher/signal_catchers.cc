// SPDX-License-Identifier: Apache-2.0
#include "launcher/signal_catchers.h"

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "launcher/process_use.h"

namespace ddprun::launcher {
namespace {

/// The value behind `label`, the beginning of a line; nullptr: there is none.
const char* value_after(const std::string& status, const std::string& label) {
  const size_t at = status.find("\n" + label);
  return at == std::string::npos ? nullptr : status.c_str() + at + 1 + label.size();
}

bool has_bit(const std::string& status, const std::string& label, int signal) {
  const char* bits = value_after(status, label);
  return bits != nullptr && ((std::strtoull(bits, nullptr, 16) >> (signal - 1)) & 1) != 0;
}

std::string read_status(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : 0;
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

bool is_child(const std::string& status, pid_t parent) {
  const char* its_parent = value_after(status, "PPid:");
  return its_parent != nullptr && std::atoi(its_parent) == parent;
}

/// The descriptor comes first: what is read then is about its process, or it has ended.
bool signal_if_caught(pid_t pid, pid_t parent, int signal) {
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return false;
  const std::string status = read_status(pid);
  if (!is_child(status, parent) || !catches(status, signal)) return false;
  return syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
}

}  // namespace

/// A process that handles signals such as these two handles all: bash with a trap for EXIT ends at
/// any, and the starter of a container, in Go, passes each on. One that blocks all passes them on,
/// too (tini), or is about to start a process, and may have no handler for them.
bool catches(const std::string& status, int signal) {
  if (has_bit(status, "SigCgt:", signal)) {
    return !has_bit(status, "SigCgt:", SIGSYS) || !has_bit(status, "SigCgt:", SIGVTALRM);
  }
  return has_bit(status, "SigBlk:", signal) && !has_bit(status, "SigBlk:", SIGVTALRM);
}

bool signal_catchers(pid_t pid, int signal) {
  if (!is_child(read_status(pid), getpid())) return false;
  if (signal_if_caught(pid, getpid(), signal)) return true;
  const std::vector<ProcessUse> below = uses_below(pid);
  bool sent = false;
  for (std::vector<pid_t> to_visit = {pid}; !to_visit.empty();) {
    const pid_t parent = to_visit.back();
    to_visit.pop_back();
    for (const ProcessUse& child : below) {
      if (child.parent != parent) continue;
      if (signal_if_caught(child.pid, parent, signal)) {
        sent = true;
      } else {
        to_visit.push_back(child.pid);
      }
    }
  }
  return sent;
}

}  // namespace ddprun::launcher
