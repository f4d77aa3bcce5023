// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher {

/// Why this process may not read the memory and stack of `pid`, as text without a full stop; empty:
/// it may, or `pid` has ended. Reads nothing of it.
std::string trace_refusal(pid_t pid);

/// The facts that decide that.
struct TraceFacts {
  bool may_read_memory = true;         ///< the kernel lets process_vm_readv(2) through
  bool may_open_memory = true;         ///< /proc/PID/mem opens; no filter of calls concerns it
  std::optional<int> yama_scope = {};  ///< kernel.yama.ptrace_scope; nullopt: no Yama
  bool has_filter = false;             ///< seccomp filters this process's calls
  bool same_user = true;
};

/// The reason as text; empty: it may.
std::string trace_refusal_text(const TraceFacts& facts);

}  // namespace ddprun::launcher
