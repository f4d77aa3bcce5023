// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher {

/// Why this process may not read the memory and stack of `pid`, for people, without a full stop;
/// empty: it may, or `pid` has ended. Reads nothing of it.
std::string trace_refusal(pid_t pid);

/// The facts that decide it.
struct TraceFacts {
  bool may_read_memory = true;         ///< process_vm_readv(2) is let through
  bool may_open_memory = true;         ///< /proc/PID/mem, which no filter of calls concerns
  std::optional<int> yama_scope = {};  ///< kernel.yama.ptrace_scope; nullopt: no Yama
  bool has_filter = false;             ///< seccomp filters this process's calls
  bool same_user = true;
};

/// The reason for people; empty: there is none.
std::string trace_refusal_text(const TraceFacts& facts);

}  // namespace ddprun::launcher
