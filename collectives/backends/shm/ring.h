// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/layout.h"

namespace ddp::internal {

/// One end of a stream of bytes from one rank to another, in memory that both map: see
/// ShmRingMemory. Nothing here blocks: the connection wakes an end that sleeps.
///
/// Thread: one at a time at each end.
class ShmRing {
 public:
  /// Makes the reader's end: takes memory from `at` on; nullopt if there is none.
  static std::optional<ShmRing> create(const ddprun::Fd& memory, std::size_t at);

  /// Opens the writer's end, once the reader has created its own; nullopt if it cannot be mapped.
  static std::optional<ShmRing> open(const ddprun::Fd& memory, std::size_t at);

  ShmRing(ShmRing&& other) noexcept
      : ring_(std::exchange(other.ring_, nullptr)),
        own_(other.own_),
        seen_(other.seen_),
        length_(other.length_),
        taken_(other.taken_) {}
  ShmRing& operator=(ShmRing&&) = delete;
  ~ShmRing();

  /// Writes as much of `first` and then `second` as fits; returns how many bytes.
  std::size_t write(std::span<const char> first, std::span<const char> second);

  /// Reads as much as is there into `first` and then `second`; returns how many bytes.
  std::size_t read(std::span<char> first, std::span<char> second);

  /// Whether write() would write so many bytes.
  bool has_room_for(std::size_t bytes);

  /// Reads until both are full, while the writer still writes. Returns false if the writer stops;
  /// then the ring is as before, and both may have been written to.
  bool read_all(std::span<char> first, std::span<char> second);

  /// Copies the next bytes without taking them; false if there are fewer or they are not
  /// contiguous.
  bool peek(std::span<char> bytes);

  /// Whether the other end sleeps and has to be woken. Call it after write() or read().
  bool must_wake_reader() { return must_wake(ring_->reader_sleeps); }
  bool must_wake_writer() { return must_wake(ring_->writer_sleeps); }

  /// From now on the other end wakes this one. Returns false if there is room (or bytes) already:
  /// look again.
  bool waits_for_room();
  bool waits_for_bytes();

  /// For the writer: data elsewhere that it let the reader read may change from now on.
  void give_up() noexcept;
  /// For the reader, after it has read such data: whether it may have changed.
  bool has_writer_given_up() const;

  /// For the reader: it looks often by itself.
  void stay_awake() { ring_->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  explicit ShmRing(ShmRingMemory* ring) : ring_(ring) {}
  static std::optional<ShmRing> map(const ddprun::Fd& memory, std::size_t at);
  static bool must_wake(std::atomic<std::uint32_t>& sleeps) {
    return sleeps.load() != 0 && sleeps.exchange(0) != 0;
  }
  char* place(std::uint64_t at) const { return ring_->data.data() + at % kShmRing; }
  std::atomic_ref<std::uint64_t> length_at(std::uint64_t at) const;
  std::size_t room() const { return kShmRing - static_cast<std::size_t>(own_ - seen_); }
  std::size_t read_next(std::span<char>& to);
  void look_for_room();
  void fetch_to_write(std::size_t last) const;
  void fetch_to_read() const;
  std::size_t record_at(std::uint64_t at) const;

  ShmRingMemory* ring_;
  std::uint64_t own_ = 0;   // where this end's next record begins
  std::uint64_t seen_ = 0;  // writer: the reader's count when this end last looked
  // Reader: of the record at own_; 0: it was not there yet.
  std::size_t length_ = 0;
  std::size_t taken_ = 0;
  std::size_t last_ = 0;  // the memory of the last record that peek() found
};

/// The rings between this rank and the others of its node; ranks are numbered as in the group.
class ShmRings {
 public:
  /// `ranks` are the node's, in the order of their places; `own` is one of them. `heap` is in the
  /// same memory.
  ShmRings(const ShmArena& arena, const std::vector<int>& ranks, int own,
           std::shared_ptr<const ShmHeap> heap);

  /// This rank's ends; nullopt if there is no memory, or the other rank is on another node.
  std::optional<ShmRing> from(int rank) const;
  std::optional<ShmRing> to(int rank) const;

  const std::shared_ptr<const ShmHeap>& heap() const { return heap_; }

  /// Whether there is a CPU for each rank of the node.
  bool have_own_cpus() const { return have_own_cpus_; }

 private:
  struct Places {
    std::size_t from;
    std::size_t to;
  };

  std::shared_ptr<const ddprun::Fd> memory_;
  std::shared_ptr<const ShmHeap> heap_;
  std::map<int, Places> places_;
  bool have_own_cpus_;
};

}  // namespace ddp::internal
