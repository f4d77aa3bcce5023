// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/descriptors.h"

#include <algorithm>
#include <filesystem>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <system_error>
#include <vector>

#include "base/fd.h"

namespace ddp::internal {
namespace {

/// Each other rank needs one in each direction, for calls and for messages.
constexpr rlim_t kPerRank = 4;
constexpr rlim_t kForTheProgram = 256;

rlim_t count_open() {
  rlim_t count = 0;
  std::error_code error;
  std::filesystem::directory_iterator all("/proc/self/fd", error);
  for (; !error && all != std::filesystem::directory_iterator(); all.increment(error)) ++count;
  return count;
}

}  // namespace

void allow_descriptors(int ranks) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  const rlim_t needed = count_open() + kPerRank * static_cast<rlim_t>(ranks) + kForTheProgram;
  if (needed <= limit.rlim_cur) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, opening a descriptor fails and reports it
}

bool has_descriptors(std::size_t count) {
  std::vector<ddprun::Fd> taken;
  while (taken.size() < count) {
    taken.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (!taken.back()) return false;
  }
  return true;
}

}  // namespace ddp::internal
