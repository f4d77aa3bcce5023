// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/call/call.h"

// The layout of the memory that the ranks of a node share. Pure.

namespace ddp::internal {

/// Of a cache.
inline constexpr std::size_t kShmLine = 64;

/// Of memory, if the kernel makes one.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// The most data that a rank shows the others in one round, in bytes. Two ranks' pieces of two
/// rounds fit into the second-level cache of current processors.
inline constexpr std::size_t kShmPiece = std::size_t{256} << 10;

/// So much data is in the cache line of the slot's head.
inline constexpr std::size_t kShmLittle = 16;

/// So much data has room in a slot.
inline constexpr std::size_t kShmShort = 256;

/// So many rounds a rank may be ahead of another. Before it writes to the slot of a round it waits
/// until every other has shown the one so many before, and compares the calls of all up to that.
inline constexpr std::uint64_t kShmAhead = 64;
static_assert(kShmAhead > 1);  // see ShmRounds::make_room()

/// By then the others have compared this rank's rounds up to the one 2 * kShmAhead before, whose
/// slot is written again.
inline constexpr std::size_t kShmSlots = 2 * kShmAhead;

/// One rank's part of a round, for the others to read. A slot is written by its rank alone.
///
/// `round` is written last, with release, and read first, with acquire: who sees the number sees
/// all of the slot, and of the slots before. A slot is written again kShmSlots rounds later. Its
/// rank has then seen every other in the round kShmAhead before that one: each of these has read
/// the data by then, as it is past that round, and compared the call, as it has done that before it
/// wrote to its own slot. Its release of its own `round` orders these reads before our write.
/// This holds with the C++ memory model alone, so also on AArch64.
struct ShmSlot {
  alignas(128) std::atomic<std::uint64_t> round;  // 0 at first: memory from the kernel is zero
  Call call;
  std::uint64_t longest;  ///< bytes of the longest stream that this rank has in this call
  std::array<char, kShmLittle> little;             ///< the data, if it has room here
  alignas(128) std::array<char, kShmShort> brief;  ///< else, if it has room here
};
static_assert(offsetof(ShmSlot, brief) == 128);

/// So many digests of rounds in a row are in one cache line, and others in others: their rank goes
/// on to a line that nobody reads yet, and who compares calls has those of so many rounds at once.
inline constexpr std::size_t kShmDigests = 8;
static_assert(kShmAhead % kShmDigests == 0 && kShmAhead > kShmDigests);

/// Of each round a number for it and its call, which is another, but for one time in 2^64, where
/// these differ. Stored after the slot's `round`, with release: who finds it as expected knows the
/// call, and that its rank has come so far, without the slot.
struct ShmDigests {
  alignas(128) std::array<std::atomic<std::uint64_t>, kShmDigests> of;
};

/// Words of 64 CPUs each, as many as a cpu_set_t has.
inline constexpr std::size_t kShmCpuWords = 16;

/// The part of one rank. Whole pages, so that each rank's memory is on its own NUMA node.
struct alignas(4096) ShmMember {
  /// The last round whose slot is written, once more: for ranks that are about to sleep. Apart from
  /// the slot, so that storing it with sequential consistency does not hold up those that spin.
  std::atomic<std::uint64_t> shown;

  /// How a rank that sleeps is woken. It reads the bell, stores the rank that it waits for (plus 1;
  /// 0: none), looks at what that one has `shown` once more, and sleeps while the bell is
  /// unchanged. The other stores `shown` first and reads waits_for then. All four are sequentially
  /// consistent, so at least one of the two sees what the other stored.
  alignas(128) std::atomic<std::uint32_t> bell;
  std::atomic<std::int32_t> waits_for;
  std::array<std::uint64_t, kShmCpuWords>
      cpus;                ///< that this rank may use; set before the first round
  std::int32_t numa_node;  ///< that has all of them, plus 1; 0: none has; set at the same time
  std::array<ShmSlot, kShmSlots> slots;

  std::array<ShmDigests, kShmSlots / kShmDigests> digests;

  /// The last round in which this rank sent and waited for no one. Stored after `round`.
  alignas(128) std::atomic<std::uint64_t> sent;

  /// The longer data of the even rounds and the odd ones. It is written when every other rank has
  /// shown the round before, so none reads what was here.
  alignas(128) std::array<std::array<char, kShmPiece>, 2> pieces;
};

/// Bytes that a rank has written for another and that one has not read yet; both are in the second
/// level cache of current processors.
inline constexpr std::size_t kShmRing = std::size_t{256} << 10;

/// A stream of bytes from one rank to one other, in records. A record begins at a cache line with
/// the number of its bytes, its length, which follow it: so a short message is in the line that its
/// reader looks at. The writer first makes the length of the next record 0, then writes the bytes,
/// and then the length, with release: who sees a length sees all of the record, and who looks too
/// early sees 0, whatever was at that place before.
///
/// `read` counts the bytes of all records that the reader is done with, whole cache lines, and is
/// stored after it has copied them: so neither ever touches bytes that the other works on.
///
/// A side that is about to sleep until the other has gone on sets its `sleeps` and looks once more.
/// The other stores the length, or its count, first and looks at `sleeps` then. All four are
/// sequentially consistent, so at least one of the two sees what the other stored; whoever finds
/// `sleeps` set takes it back and sends a byte through the connection of the two.
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
