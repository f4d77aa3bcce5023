// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/ring.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>

#include "collectives/backends/shm/fence.h"
#include "collectives/backends/shm/processor.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kRingLine = 64;
constexpr std::size_t kLength = sizeof(std::uint64_t);

/// The longest record, with its length. The other end sees it before the next one is copied, so
/// both copy at the same time. Each record moves a cache line from one processor to the other and
/// back: shorter records were slower, also for 64 KiB.
constexpr std::size_t kLongest = std::size_t{24} << 10;

/// How often to look for the next record of one message. That takes longer than copying a record,
/// unless the writer has lost its processor.
constexpr int kPatience = 1000;

/// The memory of a record of so many bytes, in whole lines.
constexpr std::size_t memory_of(std::size_t bytes) {
  return (kLength + bytes + kRingLine - 1) / kRingLine * kRingLine;
}

/// The next record is likely to be as long as the last. The reader had better fetch all lines of a
/// short record while it waits for the first; the writer had better own those of a longer one
/// before it writes. Beyond that, copying takes longer than fetching.
constexpr std::size_t kShortRecord = 5 * kRingLine;
constexpr std::size_t kMediumRecord = 20 * kRingLine;

/// The most bytes of a record that begins at `at`.
std::size_t most_at(std::uint64_t at) {
  return std::min(kLongest, kShmRing - static_cast<std::size_t>(at % kShmRing)) - kLength;
}

/// Copies `bytes` of `first` followed by `second`, from `at` on.
void copy_parts(std::span<const char> first, std::span<const char> second, std::size_t at,
                std::size_t bytes, char* to) {
  const std::size_t of_first = at < first.size() ? std::min(first.size() - at, bytes) : 0;
  if (of_first > 0) std::memcpy(to, first.data() + at, of_first);
  if (bytes == of_first) return;
  std::memcpy(to + of_first, second.data() + at + of_first - first.size(), bytes - of_first);
}

}  // namespace

std::optional<ShmRing> ShmRing::map(const ddprun::Fd& memory, std::size_t at) {
  struct stat status{};
  // The memory cannot shrink: see ShmArena::create().
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

std::atomic_ref<std::uint64_t> ShmRing::length_at(std::uint64_t at) const {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place(at)));
}

/// The other end is another process: its claims must not lead out of the memory.
void ShmRing::look_for_room() {
  const std::uint64_t read = ring_->read;
  if (own_ - read <= kShmRing && read % kRingLine == 0) seen_ = read;
}

/// The length of the record at `at`; 0 if it is not there.
std::size_t ShmRing::record_at(std::uint64_t at) const {
  const std::uint64_t length = length_at(at).load();
  return length <= most_at(at) ? static_cast<std::size_t>(length) : 0;
}

/// Counts every record as a longest one, less the line of the next length.
bool ShmRing::has_room_for(std::size_t bytes) {
  constexpr std::size_t kInRecord = kLongest - kLength - kRingLine;
  const std::size_t needed = bytes + (bytes / kInRecord + 2) * (kLength + kRingLine) + kRingLine;
  if (room() < needed) look_for_room();
  return room() >= needed;
}

/// A record needs room for the length of the next one, too.
std::size_t ShmRing::write(std::span<const char> first, std::span<const char> second) {
  const std::size_t bytes = first.size() + second.size();
  if (room() < memory_of(bytes) + kRingLine) look_for_room();
  std::size_t done = 0;
  while (done < bytes && room() > kRingLine) {
    const std::size_t length =
        std::min({bytes - done, most_at(own_), room() - kRingLine - kLength});
    copy_parts(first, second, done, length, place(own_) + kLength);
    const std::uint64_t next = own_ + memory_of(length);
    length_at(next).store(0, std::memory_order_relaxed);
    length_at(own_).store(length);
    own_ = next;
    done += length;
  }
  fetch_to_write(memory_of(bytes));
  return done;
}

/// Fetches the lines of the next record, if it is like the last.
void ShmRing::fetch_to_write(std::size_t last) const {
  if (last <= kShortRecord || last > kMediumRecord) return;
  for (std::size_t line = kRingLine; line < last; line += kRingLine) {
    prefetch_to_write(place(own_ + line));
  }
}

/// The same for the reader, without the line that it looks at.
void ShmRing::fetch_to_read() const {
  if (last_ > kShortRecord) return;
  for (std::size_t line = kRingLine; line < last_; line += kRingLine) {
    prefetch_to_read(place(own_ + line));
  }
}

/// Reads from one record, if it is there; returns how many bytes.
std::size_t ShmRing::read_next(std::span<char>& to) {
  if (length_ == 0) length_ = record_at(own_);
  const std::size_t bytes = std::min(to.size(), length_ - taken_);
  if (bytes == 0) return 0;
  std::memcpy(to.data(), place(own_) + kLength + taken_, bytes);
  to = to.subspan(bytes);
  taken_ += bytes;
  if (taken_ == length_) {
    own_ += memory_of(length_);
    length_ = taken_ = 0;
  }
  return bytes;
}

std::size_t ShmRing::read(std::span<char> first, std::span<char> second) {
  std::size_t done = 0;
  for (std::span<char> to : {first, second}) {
    while (const std::size_t bytes = read_next(to)) {
      done += bytes;
      if (length_ == 0) ring_->read = own_;
    }
    if (!to.empty()) break;
  }
  return done;
}

/// The writer gets no room back before the end, so it cannot have written more than a ring.
bool ShmRing::read_all(std::span<char> first, std::span<char> second) {
  const auto [own, length, taken] = std::tuple(own_, length_, taken_);
  for (std::span<char> to : {first, second}) {
    for (int looks = 0; !to.empty(); ++looks) {
      if (read_next(to) > 0) looks = 0;
      if (looks < kPatience && own_ - own < kShmRing) continue;
      std::tie(own_, length_, taken_) = std::tuple(own, length, taken);
      return false;
    }
  }
  ring_->read = own_;
  return true;
}

bool ShmRing::peek(std::span<char> bytes) {
  if (length_ == 0) length_ = record_at(own_);
  if (length_ == 0) return fetch_to_read(), false;
  last_ = memory_of(length_);
  if (length_ - taken_ < bytes.size()) return false;
  std::memcpy(bytes.data(), place(own_) + kLength + taken_, bytes.size());
  return true;
}

bool ShmRing::waits_for_room() {
  ring_->writer_sleeps = 1;
  look_for_room();
  return room() <= kRingLine;
}

bool ShmRing::waits_for_bytes() {
  ring_->reader_sleeps = 1;
  return length_ == 0 && record_at(own_) == 0;
}

void ShmRing::give_up() noexcept {
  ring_->has_given_up = 1;
  fence(std::memory_order_seq_cst);
}

bool ShmRing::has_writer_given_up() const {
  fence(std::memory_order_acquire);
  return ring_->has_given_up != 0;
}

ShmRings::ShmRings(const ShmArena& arena, const std::vector<int>& ranks, int own,
                   std::shared_ptr<const ShmHeap> heap)
    : memory_(arena.memory()), heap_(std::move(heap)), have_own_cpus_(arena.has_cpu_for_each()) {
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
