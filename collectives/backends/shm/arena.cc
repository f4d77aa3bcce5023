// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ddp::internal {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t bytes_of(int ranks) {
  return sizeof(ShmMember) * static_cast<std::size_t>(ranks);
}

/// Else the kernel sends SIGXFSZ instead of only refusing.
bool may_be_so_long(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= bytes;
}

}  // namespace

ddprun::Fd ShmArena::create(int ranks) {
  const std::size_t bytes = bytes_of(ranks);
  if (!may_be_so_long(bytes)) return {};
  ddprun::Fd memory(::memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = memory && ::ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(memory.get(), F_ADD_SEALS, kSeals) == 0;
  return made ? std::move(memory) : ddprun::Fd{};
}

std::optional<ShmArena> ShmArena::map(const ddprun::Fd& memory, int ranks, int rank) {
  const std::size_t bytes = bytes_of(ranks);
  struct stat status{};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);  // the kernel may have added F_SEAL_EXEC
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(memory.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != bytes) {
    return std::nullopt;
  }
  // Memory that could shrink, or that the kernel turns out not to have, would end this process by
  // SIGBUS.
  const auto begin = static_cast<off_t>(bytes_of(rank));
  if (::fallocate(memory.get(), 0, begin, sizeof(ShmMember)) != 0) return std::nullopt;
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (place == MAP_FAILED) return std::nullopt;
  return ShmArena(static_cast<ShmMember*>(place), ranks);
}

ShmArena::~ShmArena() {
  if (members_ != nullptr) ::munmap(members_, bytes_of(ranks_));
}

}  // namespace ddp::internal
