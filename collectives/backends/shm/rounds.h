// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>

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
/// A rank that waits spins for a moment, and sleeps then. It looks more often if each rank has a
/// CPU of its own.
///
/// Thread: one at a time, but stop().
class ShmRounds {
 public:
  /// `members` by rank; they must outlive this.
  ShmRounds(ShmMember* members, int rank, int size, bool has_own_cpu)
      : members_(members), rank_(rank), size_(size), has_own_cpu_(has_own_cpu) {}
  ShmRounds(const ShmRounds&) = delete;
  ShmRounds& operator=(const ShmRounds&) = delete;

  /// Where this rank writes its data of the next round, so many bytes in all.
  char* out(std::size_t bytes) const { return place(slot(rank_, round_ + 1), bytes); }

  /// Begins the next round: shows the others what was written to out(), and waits until each has
  /// shown theirs; calls `shown(rank)` for each as soon as it has. What they showed in the round
  /// before must have been read. Throws ShmStopped, but for a lost rank not if all that it waits
  /// for was shown before, and what `shown` throws.
  template <class Shown>
  void exchange(const Call& call, std::uint64_t longest, const Shown& shown) {
    const Round round(*this, call, longest);
    for (int step = 1; step < size_; ++step) {
      const int other = rank_ + step < size_ ? rank_ + step : rank_ + step - size_;
      wait_for(other);
      shown(other);
    }
  }

  /// Throws ShmStopped after stop(), as exchange() would if it began now: for ranks that work for
  /// long between two rounds.
  void check_stopped() const;

  /// The call of another rank in this round, until the next exchange().
  const Call& call_of(int rank) const { return slot(rank, round_).call; }
  std::uint64_t longest_of(int rank) const { return slot(rank, round_).longest; }
  /// Its data, so many bytes in all, as it said to out().
  const char* data_of(int rank, std::size_t bytes) const {
    return place(slot(rank, round_), bytes);
  }

  /// Makes exchange() throw from now on; if another `rank` than this one is lost, only when it has
  /// to wait. The first `rank` stays. Thread: any.
  void stop(int rank) noexcept;

 private:
  /// Shows this rank's slot at once, and, when it ends at the latest, wakes those that sleep: they
  /// are few, and looking for them takes until all processors have got the slot.
  class Round {
   public:
    Round(ShmRounds& rounds, const Call& call, std::uint64_t longest) : rounds_(rounds) {
      rounds_.show(call, longest);
    }
    ~Round() { rounds_.wake_waiting(); }
    Round(const Round&) = delete;
    Round& operator=(const Round&) = delete;

   private:
    ShmRounds& rounds_;
  };

  static char* place(ShmSlot& slot, std::size_t bytes) {
    return bytes <= kShmLittle ? slot.little.data() : slot.data.data();
  }
  ShmSlot& slot(int rank, std::uint64_t round) const { return members_[rank].slots[round % 2]; }
  bool has_shown(int rank) const {
    return slot(rank, round_).round.load(std::memory_order_acquire) == round_;
  }
  void show(const Call& call, std::uint64_t longest);
  void wake_waiting() const;
  void wait_for(int rank) {
    if (!has_shown(rank) && !spin_for(rank)) sleep_for(rank);
  }
  bool spin_for(int rank);
  void note_loss(bool lost);
  bool looks_find(int rank, int looks) const;
  void sleep_for(int rank);

  ShmMember* const members_;
  const int rank_;
  const int size_;
  const bool has_own_cpu_;
  std::uint64_t round_ = 0;
  std::uint64_t waits_ = 0;
  std::chrono::nanoseconds spin_{};  // how long the next wait spins
  bool loses_processor_ = false;     // to other programs, for long, when it gives it away
  std::uint64_t waits_per_spin_ = 1;
  std::uint64_t next_spin_ = 0;  // the wait that spins, if loses_processor_
  std::atomic<int> stopped_by_ = -1;
};

}  // namespace ddp::internal
