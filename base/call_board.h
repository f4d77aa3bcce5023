// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// A process's place in the order of its collective calls: one page of memory. A process that uses
// `ddp` writes it; ddprun reads it when it samples its workers. Nothing is sent. Pure.

namespace ddprun {

/// The page is the memfd of this name among a process's open files.
inline constexpr const char* kCallBoardName = "ddp-calls";

/// The state of one group. The writer makes `version` odd, writes, and makes it even. A reader that
/// finds the same even version before and after has read a consistent state.
struct alignas(64) CallSlot {
  using Word = std::atomic<std::uint64_t>;
  Word version;
  Word group;   ///< the same on all ranks of the group, 48 bits; 0: the slot is free
  Word rank;    ///< the process's rank in the job; the group may be a part of the job
  Word begun;   ///< number of the last call that has begun, from 1; 0: no call has begun
  Word open;    ///< number of the oldest call that has not ended; 0: no call is under way
  Word shown;   ///< that call, or else the last call that has ended: operation << 56 | count
  Word number;  ///< of `shown`; 0: there was no call
  Word unused;
};

struct CallBoard {
  static constexpr std::uint64_t kMagic = 0x64'64'70'63'61'6c'6c'31;  // "ddpcall1"
  static constexpr std::size_t kSize = 4096;
  static constexpr unsigned kOperationShift = 56;

  std::uint64_t magic;
  std::uint64_t pid;  ///< of the writer, in its own pid namespace
  std::array<std::array<char, 24>, 24> operation_names;  ///< by number: "all_reduce"
  std::array<CallSlot, 54> slots;
};
static_assert(sizeof(CallBoard) <= CallBoard::kSize && sizeof(CallSlot) == 64);

}  // namespace ddprun
