// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>

#include "collectives/backends/shm/layout.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// Thrown by ShmRounds after stop(): `rank` is the lost rank, or this one. Also thrown by a wait
/// for `rank` if that one has left the group.
struct ShmStopped : std::exception {
  explicit ShmStopped(int lost) : rank(lost) {}
  const char* what() const noexcept override { return "stopped"; }
  int rank;
};

/// Thrown by ShmRounds if another rank's call differs from this one's in the same round.
struct ShmMismatch : std::exception {
  ShmMismatch(int other, std::uint64_t in, const Call& of_this, const Call& of_other)
      : rank(other), round(in), ours(of_this), theirs(of_other) {}
  const char* what() const noexcept override { return "calls differ"; }
  int rank;
  std::uint64_t round;
  Call ours;
  Call theirs;
};

/// Rounds in shared memory: in each, every rank shows all others a call and up to kShmPiece bytes.
/// A rank waits for the ranks whose data it needs, and for all others when it is kShmAhead rounds
/// ahead. So kShmSlots slots, one a round, are enough. layout.h has the order of the accesses.
///
/// The calls of a round must be equal. A rank compares another's call before it reads that one's
/// data. It compares calls that need no wait in its next exchange(), at most kShmAhead rounds
/// later. So it does that before it reads any data of a later round in which it waits for all.
///
/// A rank that waits spins for a moment, and then sleeps. It looks more often if each rank has a
/// CPU of its own.
///
/// Thread: one at a time, except stop().
class ShmRounds {
 public:
  /// `members` by rank; they must outlive this.
  ShmRounds(ShmMember* members, int rank, int size, bool has_own_cpu)
      : members_(members), rank_(rank), size_(size), has_own_cpu_(has_own_cpu) {}
  ShmRounds(const ShmRounds&) = delete;
  ShmRounds& operator=(const ShmRounds&) = delete;

  /// Returns the memory for this rank's data of the next round, `bytes` in total. Throws as
  /// exchange().
  char* out(std::size_t bytes) {
    bytes > kShmShort ? catch_up(round_) : make_room();
    shown_bytes_ = std::min(bytes, kShmShort);
    return place(rank_, round_ + 1, bytes);
  }

  /// Begins the next round: shows the others what was written to out(), and waits until each has
  /// shown theirs. This rank must have read what they showed in the round before. Throws
  /// ShmMismatch as soon as another's call differs; that may be why the rest never come. Throws
  /// ShmStopped; if a rank was lost, only if something that it waits for was not shown before.
  void exchange(const Call& call, std::uint64_t longest) {
    const Round round(*this, call, longest);
    for (int step = 1; step < size_; ++step) {
      meet(rank_ + step < size_ ? rank_ + step : rank_ + step - size_);
    }
    compared_ = round_;
  }

  /// The same for the rank that sends data one way: waits for nobody. `to` is the rank that reads
  /// it, or kToAll. Throws ShmStopped even without a wait.
  void send(const Call& call, int to) {
    const int stopped_by = stopped_by_.load(std::memory_order_relaxed);
    if (stopped_by >= 0) throw ShmStopped(stopped_by);
    const Round round(*this, call, 0);
    sent_ = round_;
    sent_to_ = to;
    members_[rank_].sent.store(round_, std::memory_order_release);
    fetch_next_slot();
  }
  static constexpr int kToAll = -1;

  /// The same for a rank that reads such data: waits for `from` only. Throws as exchange().
  void receive(const Call& call, int from) {
    const Round round(*this, call, 0);
    meet(from);
    if (size_ == 2) compared_ = round_;
  }

  /// Whether the next round, with at most kShmShort bytes, begins without a wait for others: its
  /// slot may be written. Then send() does not wait at all.
  bool can_begin();
  /// Whether another rank has shown the next round, or does so in a moment: then reading its data
  /// needs no wait.
  bool is_ahead(int other, std::size_t bytes) const;

  /// Throws ShmStopped after stop(), as exchange() would if it began now. For ranks that work for
  /// long between two rounds.
  void check_stopped() const;

  /// The `longest` that another rank has shown in this round, until the next one begins.
  std::uint64_t longest_of(int rank) const { return slot(rank, round_).longest; }
  /// Its data, `bytes` in total, as it said to out().
  const char* data_of(int rank, std::size_t bytes) const { return place(rank, round_, bytes); }

  /// The call that another rank has shown in one of the last rounds; null: none yet. Use it after a
  /// failure, or for a rank that has left.
  const Call* call_of(int rank, std::uint64_t round) const {
    return has_shown(rank, round) ? &slot(rank, round).call : nullptr;
  }
  bool has_left(int rank) const { return members_[rank].has_left != 0; }

  /// Shows the others that this rank makes no more calls; what it has shown stays there. This is
  /// the last call.
  void leave();

  /// After leave(): a difference between the calls that this rank and another have shown, which no
  /// call of this rank has thrown; of two ranks that have left, also a call that one did not make.
  struct LateDifference {
    int rank = 0;
    const Call* ours = nullptr;    ///< null: this rank left without another call
    const Call* theirs = nullptr;  ///< null: that rank did
  };
  std::optional<LateDifference> late_difference() const;

  /// Makes exchange() throw from now on; if another `rank` than this one is lost, only when it has
  /// to wait. Later calls do not change `rank`. Thread: any.
  void stop(int rank) noexcept;

 private:
  /// Shows this rank's slot at once, and wakes sleeping ranks when it ends, at the latest. They are
  /// few, and looking for them takes until all processors have got the slot.
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

  ShmSlot& slot(int rank, std::uint64_t round) const {
    return members_[rank].slots[round % kShmSlots];
  }
  ShmDigests& digests(int rank, std::uint64_t round) const {
    return members_[rank].digests[round % kShmSlots / kShmDigests];
  }
  char* place(int rank, std::uint64_t round, std::size_t bytes) const {
    if (bytes > kShmShort) return members_[rank].pieces[round % 2].data();
    return bytes <= kShmLittle ? slot(rank, round).little.data() : slot(rank, round).brief.data();
  }
  bool has_shown(int rank, std::uint64_t round) const {
    return slot(rank, round).round.load(std::memory_order_acquire) == round;
  }
  void show(const Call& call, std::uint64_t longest);
  void wake_waiting() const;
  void ring_waiting() const;
  void fetch_next_slot() const;
  void wait_for(int rank, std::uint64_t round) {
    if (!has_shown(rank, round) && !spin_for(rank, round)) sleep_for(rank, round);
  }
  /// Waits until another has shown this round, and compares all of its uncompared calls.
  void meet(int other) {
    for (std::uint64_t round = compared_ + 1; round < round_; ++round) {
      if (!is_alike(other, round)) meet(other, round);
    }
    meet(other, round_);
  }
  void meet(int other, std::uint64_t round) {
    wait_for(other, round);
    compare(other, round);
  }
  void compare(int other, std::uint64_t round) const {
    const Call& theirs = slot(other, round).call;
    const Call& ours = calls_[round % kShmSlots];
    if (theirs != ours) throw ShmMismatch(other, round, ours, theirs);
  }
  /// Whether another has shown this call in the round; false also if that is not known yet.
  bool is_alike(int other, std::uint64_t round) const {
    const ShmDigests& line = digests(other, round);
    return line.of[round % kShmDigests].load(std::memory_order_acquire) ==
           digests_[round % kShmSlots];
  }
  /// To be called before this rank writes to its next slot.
  void make_room() {
    if (!has_room()) meet_all(end_of_digests());
    if (sent_ > compared_) look_at_senders();
  }
  void catch_up(std::uint64_t last) {
    if (compared_ < last) meet_all(last);
  }
  void meet_all(std::uint64_t last);
  void look_at_senders() const;
  bool spin_for(int rank, std::uint64_t round);
  void note_loss(bool lost);
  bool looks_find(int rank, std::uint64_t round, int looks) const;
  bool are_alike(std::uint64_t last) const;
  /// If calls have to be compared before the next round begins: the round up to which, the end of a
  /// line of digests, so that the next rounds need not.
  std::uint64_t end_of_digests() const {
    return (round_ + 2 - kShmDigests) / kShmDigests * kShmDigests - 1;
  }
  bool has_room() const { return compared_ + kShmAhead > round_; }
  void sleep_for(int rank, std::uint64_t round);

  ShmMember* const members_;
  const int rank_;
  const int size_;
  const bool has_own_cpu_;
  std::uint64_t round_ = 0;
  std::uint64_t compared_ = 0;              // up to this round, with every other rank
  std::array<Call, kShmSlots> calls_ = {};  // this rank's: its slots may be in other caches
  std::array<std::uint64_t, kShmSlots> digests_ = {};  // the same
  std::uint64_t sent_ = 0;                             // the last round of send()
  int sent_to_ = kToAll;
  std::size_t shown_bytes_ = 0;  // the last data's in a slot
  std::uint64_t waits_ = 0;
  std::chrono::nanoseconds spin_{};  // how long the next wait spins
  bool loses_processor_ = false;     // it gives the processor to other programs, for long
  std::uint64_t waits_per_spin_ = 1;
  std::uint64_t next_spin_ = 0;  // the next wait that spins, if loses_processor_
  std::atomic<int> stopped_by_ = -1;
};

}  // namespace ddp::internal
