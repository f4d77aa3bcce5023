// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>

#include "collectives/backends/shm/layout.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// Thrown by ShmRounds after stop(): `rank` is the one that was lost, or this one.
struct ShmStopped : std::exception {
  explicit ShmStopped(int lost) : rank(lost) {}
  const char* what() const noexcept override { return "stopped"; }
  int rank;
};

/// Rounds in shared memory: in each, every rank shows all others a call and up to kShmPiece bytes,
/// and sees theirs. No rank is ever more than one round ahead of another, so two slots a rank are
/// enough, and a round has one wait. layout.h has the order of the accesses.
///
/// A rank that waits spins for a moment if each rank has a CPU of its own, and sleeps then.
///
/// Thread: one at a time, but stop().
class ShmRounds {
 public:
  /// `members` by rank; they must outlive this.
  ShmRounds(ShmMember* members, int rank, int size, bool spins)
      : members_(members), rank_(rank), size_(size), spins_(spins) {}
  ShmRounds(const ShmRounds&) = delete;
  ShmRounds& operator=(const ShmRounds&) = delete;

  /// Where this rank writes its data of the next round.
  char* out() const { return slot(rank_, round_ + 1).data.data(); }

  /// Begins the next round: shows the others what was written to out(), and waits until each has
  /// shown theirs; calls `shown` for each as soon as it has. What they showed in the round before
  /// must have been read. Throws ShmStopped, but for a lost rank not if all that it waits for was
  /// shown before, and what `shown` throws.
  void exchange(const Call& call, std::uint64_t longest,
                const std::function<void(int rank)>& shown = {});

  /// What another rank showed in this round, until the next exchange().
  const Call& call_of(int rank) const { return slot(rank, round_).call; }
  std::uint64_t longest_of(int rank) const { return slot(rank, round_).longest; }
  const char* data_of(int rank) const { return slot(rank, round_).data.data(); }

  /// Makes exchange() throw from now on; if another `rank` than this one is lost, only when it has
  /// to wait. The first `rank` stays. Thread: any.
  void stop(int rank) noexcept;

 private:
  ShmSlot& slot(int rank, std::uint64_t round) const { return members_[rank].slots[round % 2]; }
  bool has_shown(int rank) const { return slot(rank, round_).round == round_; }
  void wake_waiting() const;
  bool spin_for(int rank);
  void sleep_for(int rank);

  ShmMember* const members_;
  const int rank_;
  const int size_;
  const bool spins_;
  std::uint64_t round_ = 0;
  std::uint64_t waits_ = 0;
  std::chrono::nanoseconds spin_{};  // how long the next wait spins
  std::atomic<int> stopped_by_ = -1;
};

}  // namespace ddp::internal
