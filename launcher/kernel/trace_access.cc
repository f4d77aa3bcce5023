// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/trace_access.h"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"

namespace ddprun::launcher {
namespace {

/// The kernel checks the right before it looks at the address, where nothing is.
bool may_read_memory(pid_t pid) {
  char byte = 0;
  const iovec here = {&byte, 1};
  const iovec there = {reinterpret_cast<void*>(1), 1};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || (errno != EPERM && errno != ENOSYS);
}

bool may_open_memory(pid_t pid) {
  const Fd memory(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  return memory || (errno != EACCES && errno != EPERM);
}

std::optional<int> yama_scope() {
  int scope = 0;
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  if (!(file >> scope)) return std::nullopt;
  return scope;
}

bool has_filter() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Seccomp:")) return line.ends_with('2');
  }
  return false;
}

bool is_of_same_user(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Uid:"))
      return (line + "\t").find("\t" + std::to_string(geteuid()) + "\t") != line.npos;
  }
  return true;
}

}  // namespace

std::string trace_refusal(pid_t pid) {
  const TraceFacts facts = {may_read_memory(pid), may_open_memory(pid), yama_scope(), has_filter(),
                            is_of_same_user(pid)};
  return trace_refusal_text(facts);
}

std::string trace_refusal_text(const TraceFacts& facts) {
  if (facts.may_read_memory) return "";
  if (facts.may_open_memory && facts.has_filter) {
    return "a seccomp filter, such as a container's, refuses it: allow ptrace and "
           "process_vm_readv (docker run --cap-add SYS_PTRACE)";
  }
  if (!facts.same_user) return "it runs as another user";
  const int scope = facts.yama_scope.value_or(0);
  if (scope >= 3) return "kernel.yama.ptrace_scope is 3: no process may until the next boot";
  if (scope == 2) return "kernel.yama.ptrace_scope is 2: only root may (CAP_SYS_PTRACE)";
  return "the kernel refuses it: the process has other rights (setuid, or not dumpable)";
}

}  // namespace ddprun::launcher
