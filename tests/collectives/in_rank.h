// SPDX-License-Identifier: Apache-2.0
// Helpers for code in the process of a rank. Exit codes: 0 success, 1 a check failed, 2 another
// exception, 10 + kind for a ddp::Error; the sentence is printed.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ddp/error.h>
#include <ddp/process_group.h>
#include <exception>
#include <fstream>
#include <linux/securebits.h>
#include <string>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <type_traits>
#include <unistd.h>

#include "tests/collectives/failed.h"

namespace ddprun::tests {

inline std::string variable_or(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// The backend of this run of the tests: DDP_TEST_BACKEND, or the default.
inline std::string backend_of_test() {
  return variable_or("DDP_TEST_BACKEND", "");
}

[[noreturn]] inline void wrong(const std::string& what) {
  std::printf("wrong: %s\n", what.c_str());
  std::exit(1);
}

inline void check(bool right, const std::string& what) {
  if (!right) wrong(what);
}

/// Checks that the call throws an error of kind usage, and prints it.
template <class F>
void refused(F call) {
  try {
    call();
    wrong("accepted");
  } catch (const ddp::Error& error) {
    if (error.kind() != ddp::ErrorKind::usage) wrong(error.what());
    std::printf("%s\n", error.what());
  }
}

inline int report(const ddp::Error& error) {
  std::printf("%s\n", error.what());
  return failed(error.kind());
}

/// Runs `program` and returns the exit code; if `program` returns one, that.
template <class F>
int exit_code_of(F program) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      program();
    } else {
      return program();
    }
  } catch (const ddp::Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
  return 0;
}

/// Makes this rank unable to share memory: it may not write so long a file. Then the ranks of its
/// node move data over TCP.
inline void give_up_shared_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 64 << 10;
  check(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

/// Whether memory of a group is mapped in this process.
inline bool is_sharing_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:ddp ") != std::string::npos) return true;
  }
  return false;
}

/// Ranks only share memory with ranks of their user. So as different users they take each other for
/// ranks of other nodes. This puts the rank on node RANK modulo `nodes`, as that user. It keeps its
/// capabilities, which the leak sanitizer needs. Only root can do it; otherwise all ranks are on
/// one node.
inline void settle_on_node(int nodes) {
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0) return;
  const int node = std::stoi(variable_or("RANK", "0")) % nodes;
  check(::seteuid(static_cast<uid_t>(node)) == 0, "seteuid");
  ::setfsuid(0);  // its sockets stay root's: ddprun's store lets no other user in
}

/// Joins the group of all ranks, as the environment describes it: DDP_TEST_TIMEOUT_MS (the timeout
/// of calls; on a busy machine processes need longer to start), DDP_TEST_JOIN_MS, DDP_TEST_INIT,
/// DDP_TEST_WITHOUT_SHARED_MEMORY, DDP_TEST_NODES.
inline ddp::ProcessGroup join(ddp::Options options = {}) {
  const std::string nodes = variable_or("DDP_TEST_NODES", "");
  if (!nodes.empty()) settle_on_node(std::stoi(nodes));
  if (!variable_or("DDP_TEST_WITHOUT_SHARED_MEMORY", "").empty()) give_up_shared_memory();
  options.backend = backend_of_test();
  const std::string limit = variable_or("DDP_TEST_TIMEOUT_MS", "");
  options.timeout = std::chrono::milliseconds(std::stol(variable_or("DDP_TEST_JOIN_MS", "60000")));
  options.init_method = variable_or("DDP_TEST_INIT", "env://");
  ddp::ProcessGroup group = ddp::init_process_group(options);
  if (!limit.empty()) group.set_timeout(std::chrono::milliseconds(std::stol(limit)));
  return group;
}

}  // namespace ddprun::tests
