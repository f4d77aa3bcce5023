// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/heap.h"

#include <algorithm>
#include <fcntl.h>
#include <limits>
#include <sys/mman.h>
#include <utility>

namespace ddp::internal {
namespace {

/// The pages that a region is aligned to: huge ones if it is long enough.
std::size_t page_of(std::size_t bytes) {
  return bytes < kHugePage ? page_size() : kHugePage;
}

/// mmap() of shared memory, at an address that pages of this size can have.
void* map_shared(const ddprun::Fd& memory, std::size_t begin, std::size_t bytes, std::size_t page) {
  void* const room = ::mmap(nullptr, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return room;
  const auto first = reinterpret_cast<std::uintptr_t>(room);
  const std::size_t before = round_up(first, page) - first;
  char* const place = static_cast<char*>(room) + before;
  void* const mapped = ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              memory.get(), static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) {
    ::munmap(room, bytes + page);
    return mapped;
  }
  if (before > 0) ::munmap(room, before);
  if (before < page) ::munmap(place + bytes, page - before);
  return mapped;
}

/// Makes pages huge, which halves the time of long copies. From Linux 6.1 on this works whatever
/// /sys/kernel/mm/transparent_hugepage says. Older kernels keep small pages.
void make_pages_huge(void* begin, std::size_t bytes) {
  constexpr int kMadvCollapse = 25;  // MADV_COLLAPSE, which older headers do not have
  const std::size_t whole = bytes / kHugePage * kHugePage;
  if (whole > 0) ::madvise(begin, whole, kMadvCollapse);
}

}  // namespace

/// The parts of all ranks, next to each other; whole pages, so that each is on its own NUMA node.
class ShmRegion {
 public:
  ShmRegion(std::shared_ptr<const ddprun::Fd> memory, std::size_t begin, std::size_t bytes,
            int ranks, int rank)
      : memory_(std::move(memory)),
        begin_(begin),
        bytes_(round_up(bytes, page_size())),
        stride_(round_up(bytes, page_of(bytes))),
        ranks_(ranks),
        rank_(rank) {}
  ShmRegion(const ShmRegion&) = delete;
  ShmRegion& operator=(const ShmRegion&) = delete;

  /// Gives this rank's part back; the other ranks give back theirs.
  ~ShmRegion() {
    if (parts_ != MAP_FAILED) ::munmap(parts_, extent());
    ::fallocate(memory_->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin_of_own(),
                static_cast<off_t>(bytes_));
  }

  bool take() {
    if (!may_file_be(begin_ + extent()) || !take_memory(*memory_, begin_of_own(), bytes_))
      return false;
    parts_ = map_shared(*memory_, begin_, extent(), page_of(bytes_));
    if (parts_ == MAP_FAILED) return false;
    make_pages_huge(own(), bytes_);
    return true;
  }

  char* part(int rank) const {
    return static_cast<char*>(parts_) + stride_ * static_cast<std::size_t>(rank);
  }
  char* own() const { return part(rank_); }
  std::uint64_t position_of_own() const {
    return begin_ + stride_ * static_cast<std::size_t>(rank_);
  }

  /// Returns null if the data is not within one rank's part.
  const char* at(std::uint64_t position, std::size_t bytes) const {
    if (position < begin_ || position - begin_ >= extent() || bytes > bytes_) return nullptr;
    const auto offset = static_cast<std::size_t>(position - begin_);
    return offset % stride_ <= bytes_ - bytes ? part(0) + offset : nullptr;
  }

  std::size_t begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t extent() const { return stride_ * static_cast<std::size_t>(ranks_); }

 private:
  off_t begin_of_own() const { return static_cast<off_t>(position_of_own()); }

  const std::shared_ptr<const ddprun::Fd> memory_;
  const std::size_t begin_;   // where it begins in the memory
  const std::size_t bytes_;   // the size of a part
  const std::size_t stride_;  // from one rank's part to the next one's
  const int ranks_;
  const int rank_;
  void* parts_ = MAP_FAILED;
};

std::uint64_t ShmPlace::number() const {
  return region_ ? region_->begin() + at_ : 0;
}

std::uint64_t ShmPlace::position() const {
  return region_->position_of_own() + at_;
}

char* ShmPlace::of(int rank) const {
  return region_->part(rank) + at_;
}

ShmHeap::ShmHeap(const ShmArena& arena, int rank)
    : memory_(arena.memory()), ranks_(arena.ranks()), rank_(rank), next_(arena.bytes()) {}

std::shared_ptr<ShmRegion> ShmHeap::take(std::size_t bytes) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
  const std::size_t page = page_of(bytes);
  next_ = round_up(next_, page);
  const std::size_t room = (kMost - next_) / static_cast<std::size_t>(ranks_);
  if (room < page || bytes > room - page) return nullptr;
  auto region =
      std::make_shared<ShmRegion>(memory_, next_, std::max<std::size_t>(bytes, 1), ranks_, rank_);
  next_ += region->extent();
  return region->take() ? region : nullptr;
}

std::shared_ptr<void> ShmHeap::use(const std::shared_ptr<ShmRegion>& region) {
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const Known& known) { return known.region.expired(); });
  char* const own = region->own();
  known_.push_back({reinterpret_cast<std::uintptr_t>(own), region->bytes(), region});
  is_used_ = true;
  return {region, own};
}

ShmPlace ShmHeap::find(const void* data, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const Known& known : known_) {
    if (address < known.begin || bytes > known.bytes) continue;
    const std::size_t at = address - known.begin;
    if (at > known.bytes - bytes) continue;
    if (auto region = known.region.lock()) return {std::move(region), at};
  }
  return {};
}

std::uint64_t ShmHeap::position_of(const void* data, std::size_t bytes) const {
  const ShmPlace place = find(data, bytes);
  return place.number() == 0 ? 0 : place.position();
}

std::shared_ptr<const char> ShmHeap::at(std::uint64_t position, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const Known& known : known_) {
    const auto region = known.region.lock();
    const char* const data = region ? region->at(position, bytes) : nullptr;
    if (data != nullptr) return {region, data};
  }
  return nullptr;
}

}  // namespace ddp::internal
