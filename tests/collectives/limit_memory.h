// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/collectives/in_rank.h"

namespace ddprun::tests {

/// Whether the process can continue with little memory: sanitizers take more at any time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kNeedsLittleMemory = false;
#else
inline constexpr bool kNeedsLittleMemory = true;
#endif

/// From now on this process can only map `more` bytes. Returns the limit before.
inline rlimit limit_memory(std::size_t more) {
  rlimit before{};
  check(::getrlimit(RLIMIT_AS, &before) == 0, "getrlimit");
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit = before;
  limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more;
  check(::setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  return before;
}

/// Takes all blocks of 32 KiB that malloc() has, and keeps them.
inline void use_up_memory() {
  static_cast<void>(limit_memory(0));
  void* volatile block = nullptr;
  do {
    block = std::malloc(std::size_t{32} << 10);
  } while (block != nullptr);
}

}  // namespace ddprun::tests
