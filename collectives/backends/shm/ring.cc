// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/ring.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>

namespace ddp::internal {
namespace {

/// So many bytes are copied before the other end sees them: so both copy at the same time.
constexpr std::size_t kStep = std::size_t{16} << 10;

/// From `at`, counted from the beginning of the stream, to the end of the memory at most.
std::size_t contiguous(std::uint64_t at, std::size_t bytes) {
  return std::min({bytes, kStep, kShmRing - static_cast<std::size_t>(at % kShmRing)});
}

}  // namespace

std::optional<ShmRing> ShmRing::map(const ddprun::Fd& memory, std::size_t at) {
  struct stat status{};
  // It cannot shrink any more: see ShmArena::create().
  if (::fstat(memory.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < at + sizeof(ShmRingMemory)) {
    return std::nullopt;
  }
  void* const place = ::mmap(nullptr, sizeof(ShmRingMemory), PROT_READ | PROT_WRITE, MAP_SHARED,
                             memory.get(), static_cast<off_t>(at));
  if (place == MAP_FAILED) return std::nullopt;
  return ShmRing(static_cast<ShmRingMemory*>(place));
}

std::optional<ShmRing> ShmRing::create(const ddprun::Fd& memory, std::size_t at) {
  if (!may_file_be(at + sizeof(ShmRingMemory)) ||
      !take_memory(memory, static_cast<off_t>(at), sizeof(ShmRingMemory))) {
    return std::nullopt;
  }
  auto ring = map(memory, at);
  if (ring) ring->ring_->reader_sleeps = 1;
  return ring;
}

std::optional<ShmRing> ShmRing::open(const ddprun::Fd& memory, std::size_t at) {
  return map(memory, at);
}

ShmRing::~ShmRing() {
  if (ring_ != nullptr) ::munmap(ring_, sizeof(ShmRingMemory));
}

/// The other end is of another process: what it claims must not lead out of the memory.
void ShmRing::look_for_room() {
  const std::uint64_t read = ring_->read;
  if (own_ - read <= kShmRing) seen_ = read;
}

void ShmRing::look_for_bytes() {
  const std::uint64_t written = ring_->written;
  if (written - own_ <= kShmRing) seen_ = written;
}

std::size_t ShmRing::write(std::span<const char> first, std::span<const char> second) {
  const std::size_t wanted = first.size() + second.size();
  if (room() < wanted) look_for_room();
  const std::size_t bytes = std::min(room(), wanted);
  for (std::size_t done = 0; done < bytes;) {
    const bool is_first = done < first.size();
    const std::span<const char> rest =
        is_first ? first.subspan(done) : second.subspan(done - first.size());
    const std::size_t length = contiguous(own_, std::min(rest.size(), bytes - done));
    std::memcpy(ring_->data.data() + own_ % kShmRing, rest.data(), length);
    own_ += length;
    done += length;
    if (done < bytes && !is_first) ring_->written.store(own_, std::memory_order_release);
  }
  if (bytes > 0) ring_->written = own_;
  return bytes;
}

std::size_t ShmRing::read(std::span<char> first, std::span<char> second) {
  if (seen_ == own_) look_for_bytes();
  const std::size_t bytes =
      std::min(static_cast<std::size_t>(seen_ - own_), first.size() + second.size());
  for (std::size_t done = 0; done < bytes;) {
    const bool is_first = done < first.size();
    const std::span<char> rest =
        is_first ? first.subspan(done) : second.subspan(done - first.size());
    const std::size_t length = contiguous(own_, std::min(rest.size(), bytes - done));
    std::memcpy(rest.data(), ring_->data.data() + own_ % kShmRing, length);
    own_ += length;
    done += length;
    if (done < bytes) ring_->read.store(own_, std::memory_order_release);
  }
  if (bytes > 0) ring_->read = own_;
  return bytes;
}

bool ShmRing::peek(std::span<char> bytes) {
  if (!holds(bytes.size())) return false;
  const auto at = static_cast<std::size_t>(own_ % kShmRing);
  const std::size_t first = std::min(bytes.size(), kShmRing - at);
  std::memcpy(bytes.data(), ring_->data.data() + at, first);
  if (first < bytes.size()) {
    std::memcpy(bytes.data() + first, ring_->data.data(), bytes.size() - first);
  }
  return true;
}

bool ShmRing::waits_for_room() {
  ring_->writer_sleeps = 1;
  look_for_room();
  return room() == 0;
}

bool ShmRing::waits_for_bytes() {
  ring_->reader_sleeps = 1;
  look_for_bytes();
  return seen_ == own_;
}

ShmRings::ShmRings(const ShmArena& arena, const std::vector<int>& ranks, int own)
    : memory_(arena.memory()), have_own_cpus_(arena.has_cpu_for_each()) {
  const int place = static_cast<int>(std::ranges::find(ranks, own) - ranks.begin());
  for (int other = 0; other < static_cast<int>(ranks.size()); ++other) {
    if (other == place) continue;
    places_[ranks[static_cast<std::size_t>(other)]] = {arena.ring_at(other, place),
                                                       arena.ring_at(place, other)};
  }
}

std::optional<ShmRing> ShmRings::from(int rank) const {
  const auto found = places_.find(rank);
  return found == places_.end() ? std::nullopt : ShmRing::create(*memory_, found->second.from);
}

std::optional<ShmRing> ShmRings::to(int rank) const {
  const auto found = places_.find(rank);
  return found == places_.end() ? std::nullopt : ShmRing::open(*memory_, found->second.to);
}

}  // namespace ddp::internal
