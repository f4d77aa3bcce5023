// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/call/call.h"

// The layout of the memory that the ranks of a node share. Pure.

namespace ddp::internal {

/// The size of a cache line.
inline constexpr std::size_t kShmLine = 64;

/// The size of a huge page.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// The most data, in bytes, that a rank shows the others in one round. Two ranks' pieces of two
/// rounds fit into the second-level cache of current processors.
inline constexpr std::size_t kShmPiece = std::size_t{256} << 10;

/// The bytes of data in the cache line of the slot's head.
inline constexpr std::size_t kShmLittle = 16;

/// The bytes of data that fit in a slot.
inline constexpr std::size_t kShmShort = 256;

/// How many rounds a rank may be ahead of another. Before a rank writes to the slot of a round, it
/// waits until every other has shown the round so many before, and compares all calls up to that.
inline constexpr std::uint64_t kShmAhead = 64;
static_assert(kShmAhead > 1);  // see ShmRounds::make_room()

/// The number of slots. When a slot is written again, the others have compared this rank's rounds
/// up to the one 2 * kShmAhead before.
inline constexpr std::size_t kShmSlots = 2 * kShmAhead;

/// One rank's part of a round, for the others to read. Only its rank writes to a slot.
///
/// `round` is written last, with release, and read first, with acquire: a rank that sees the number
/// sees all of the slot, and of the slots before. A slot is written again kShmSlots rounds later.
/// By then its rank has seen every other rank in the round kShmAhead before that one. Each of these
/// has read the data, as it is past that round, and compared the call, as it does that before it
/// writes to its own slot. Its release of its own `round` orders these reads before the new write.
/// The C++ memory model alone ensures this, so it also holds on AArch64.
struct ShmSlot {
  alignas(128) std::atomic<std::uint64_t> round;  // 0 at first: memory from the kernel is zero
  Call call;
  std::uint64_t longest;                ///< bytes of the rank's longest stream in this call
  std::array<char, kShmLittle> little;  ///< the data, if it fits here
  alignas(128) std::array<char, kShmShort> brief;  ///< else, if it fits here
};
static_assert(offsetof(ShmSlot, brief) == 128);

/// The digests of so many successive rounds share a cache line. So a rank continues in a line that
/// nobody reads yet, and a rank that compares calls gets those of so many rounds at once.
inline constexpr std::size_t kShmDigests = 8;
static_assert(kShmAhead % kShmDigests == 0 && kShmAhead > kShmDigests);

/// A number for each round and its call; two that differ have the same number once in 2^64 times.
/// It is stored after the slot's `round`, with release: a rank that finds the expected number knows
/// the call, and that its rank has come so far, without the slot.
struct ShmDigests {
  alignas(128) std::array<std::atomic<std::uint64_t>, kShmDigests> of;
};

/// The number of words of 64 CPUs each; as many as a cpu_set_t has.
inline constexpr std::size_t kShmCpuWords = 16;

/// One rank's part. Whole pages, so that each rank's memory is on its own NUMA node.
struct alignas(4096) ShmMember {
  /// The last round whose slot is written, again, for ranks that are about to sleep. It is apart
  /// from the slot, so that its sequentially consistent store does not delay ranks that spin.
  std::atomic<std::uint64_t> shown;

  /// Wakes a rank that sleeps. That rank reads the bell, stores the rank that it waits for (plus 1;
  /// 0: none), reads that rank's `shown` again, and sleeps while the bell is unchanged. The other
  /// rank stores `shown` first, then reads waits_for. All four are sequentially consistent, so at
  /// least one of the two sees what the other stored.
  alignas(128) std::atomic<std::uint32_t> bell;
  std::atomic<std::int32_t> waits_for;
  std::array<std::uint64_t, kShmCpuWords>
      cpus;  ///< CPUs that this rank may use; set before the first round
  std::array<ShmSlot, kShmSlots> slots;

  std::array<ShmDigests, kShmSlots / kShmDigests> digests;

  /// The last round in which this rank sent and waited for nobody. Stored after `round`.
  alignas(128) std::atomic<std::uint64_t> sent;

  /// 1: this rank has left the group, and shows no more rounds. It stores this after its last
  /// round, and then rings the bells of ranks that wait for it, as after a round.
  std::atomic<std::uint32_t> has_left;

  /// The longer data of even and of odd rounds. It is written when every other rank has shown the
  /// round before, so none reads the old data any more.
  alignas(128) std::array<std::array<char, kShmPiece>, 2> pieces;
};

/// Bytes of a ring: a rank has written them, and another has not read them yet. They are in the
/// second-level cache of both on current processors.
inline constexpr std::size_t kShmRing = std::size_t{256} << 10;

/// A stream of bytes from one rank to another, in records. A record begins at a cache line with its
/// length, the number of bytes that follow. So a short message is in the line that its reader looks
/// at. The writer first sets the length of the next record to 0, then writes the bytes, and then
/// the length, with release. A reader that sees a length sees all of the record. A reader that
/// looks too early sees 0, whatever was at that place before.
///
/// `read` counts the bytes of all records that the reader has finished, in whole cache lines. It is
/// stored after the reader has copied them, so neither side touches bytes that the other works on.
///
/// A side that is about to sleep until the other has progressed sets its `sleeps` and looks again.
/// The other side first stores the length, or its count, and then looks at `sleeps`. All four are
/// sequentially consistent, so at least one of the two sees what the other stored. A side that
/// finds `sleeps` set clears it and sends a byte through their connection.
struct ShmRingMemory {
  alignas(128) std::atomic<std::uint64_t> read;
  alignas(128) std::atomic<std::uint32_t> reader_sleeps;
  alignas(128) std::atomic<std::uint32_t> writer_sleeps;
  alignas(128) std::atomic<std::uint32_t> has_given_up;  // the writer: data elsewhere may change
  alignas(4096) std::array<char, kShmRing> data;         // zero at first: memory from the kernel is
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));  // a futex

}  // namespace ddp::internal
