// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/kernel/stopped_thread.h"
#include "tests/catch.h"
#include "tests/contains.h"

namespace ddprun::launcher {
namespace {

using tests::contains;

/// Denies this process to read another's memory from now on.
bool filter_memory_reads() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_CASE("a process of ours may be read") {
  CHECK(trace_refusal(getpid()).empty());
}

TEST_CASE("a filter of system calls is named") {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    if (!filter_memory_reads()) _exit(77);
    const bool is_named = trace_refusal(parent).find("seccomp") != std::string::npos;
    _exit(is_named ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

TEST_CASE("each reason why a process may not be read has its own sentence") {
  CHECK(trace_refusal_text({}).empty());
  CHECK(trace_refusal_text({true, false, 3, true, false}).empty());
  const auto reason = [](bool may_open, std::optional<int> scope, bool filter, bool same_user) {
    return trace_refusal_text({false, may_open, scope, filter, same_user});
  };
  CHECK(contains(reason(true, std::nullopt, true, true), "seccomp"));
  CHECK(contains(reason(true, 2, true, true), "seccomp"));
  CHECK(contains(reason(false, 2, true, true), "ptrace_scope is 2"));
  CHECK(contains(reason(false, 3, false, true), "ptrace_scope is 3"));
  CHECK(contains(reason(false, 1, false, false), "another user"));
  CHECK(contains(reason(false, 1, false, true), "not dumpable"));
  CHECK(contains(reason(false, std::nullopt, false, true), "not dumpable"));
}

}  // namespace
}  // namespace ddprun::launcher
