// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddp::internal {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;

std::size_t bytes_of(int ranks) {
  return sizeof(ShmMember) * static_cast<std::size_t>(ranks);
}

}  // namespace

bool may_file_be(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= bytes;
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::size_t kib = 0;
  bool is_known = false;
  for (std::string name; file >> name;) {
    std::size_t amount = 0;
    if (name != "MemAvailable:" && name != "SwapFree:") continue;
    is_known = (file >> amount) || is_known;
    kib += amount;
  }
  return is_known ? kib << 10U : std::numeric_limits<std::size_t>::max();
}

bool take_memory(const ddprun::Fd& memory, off_t begin, std::size_t bytes) {
  constexpr std::size_t kStep = std::size_t{1} << 20;  // after a signal the kernel repeats a step
  constexpr std::size_t kCheck = std::size_t{256} << 20;
  for (std::size_t at = 0; at < bytes; at += kStep) {
    // Checked repeatedly: the other ranks take theirs at the same time.
    if (bytes > kCheck && at % kCheck == 0 && bytes - at > available_memory()) return false;
    const auto length = static_cast<off_t>(std::min(kStep, bytes - at));
    int rc = 0;
    do {
      rc = ::fallocate(memory.get(), 0, begin + static_cast<off_t>(at), length);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) return false;
  }
  return true;
}

ddprun::Fd ShmArena::create(int ranks) {
  const std::size_t bytes = bytes_of(ranks);
  if (!may_file_be(bytes)) return {};
  ddprun::Fd memory(::memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool made = memory && ::ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(memory.get(), F_ADD_SEALS, kSeals) == 0;
  return made ? std::move(memory) : ddprun::Fd{};
}

std::optional<ShmArena> ShmArena::map(ddprun::Fd memory, int ranks, int rank) {
  const std::size_t bytes = bytes_of(ranks);
  struct stat status{};
  // If the memory could shrink, that would end this process by SIGBUS.
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);  // the kernel may have added F_SEAL_EXEC
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(memory.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < bytes) {
    return std::nullopt;
  }
  const auto begin = static_cast<off_t>(bytes_of(rank));
  if (!take_memory(memory, begin, sizeof(ShmMember))) return std::nullopt;
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (place == MAP_FAILED) return std::nullopt;
  return ShmArena(std::move(memory), static_cast<ShmMember*>(place), ranks);
}

bool ShmArena::has_cpu_for_each() const {
  int cpus = 0;
  for (std::size_t word = 0; word < kShmCpuWords; ++word) {
    std::uint64_t any = 0;
    for (int rank = 0; rank < ranks_; ++rank) any |= members_[rank].cpus[word];
    cpus += std::popcount(any);
  }
  return cpus >= ranks_;
}

std::size_t ShmArena::ring_at(int from, int to) const {
  const auto ring = static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
                    static_cast<std::size_t>(to);
  const std::size_t page = page_size();
  return round_up(bytes_of(ranks_), page) + ring * round_up(sizeof(ShmRingMemory), page);
}

std::size_t ShmArena::bytes() const {
  return ring_at(ranks_, 0);
}

ShmArena::~ShmArena() {
  if (members_ != nullptr) ::munmap(members_, bytes_of(ranks_));
}

}  // namespace ddp::internal
