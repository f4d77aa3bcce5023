// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "collectives/backends/shm/layout.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// Thrown by ShmRounds after stop(): `rank` is the one that was lost, or this one.
struct ShmStopped : std::exception {
  explicit ShmStopped(int lost) : rank(lost) {}
  const char* what() const noexcept override { return "stopped"; }
  int rank;
};

/// Thrown by ShmRounds when another rank's call differs from this one's in the same round.
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
/// It waits for those whose data it needs, and at most so long that it is kShmAhead rounds ahead of
/// the others: so a slot a round, kShmSlots in all, is enough. layout.h has the order of the
/// accesses.
///
/// The calls of a round must be equal. Whose data is read has its call compared first. Calls that
/// need no wait are compared in this rank's next exchange(), and at most kShmAhead rounds later, so
/// before this rank reads any data of a later round in which it waits for all.
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

  /// Where this rank writes its data of the next round, so many bytes in all. Throws as exchange().
  char* out(std::size_t bytes) {
    bytes > kShmShort ? catch_up(round_) : make_room();
    shown_bytes_ = std::min(bytes, kShmShort);
    return place(rank_, round_ + 1, bytes);
  }

  /// Begins the next round: shows the others what was written to out(), and waits until each has
  /// shown theirs. What they showed in the round before must have been read. Throws ShmMismatch as
  /// soon as the call of another is seen to differ, which may be why the rest never come; and
  /// ShmStopped, but for a lost rank not if all that it waits for was shown before.
  void exchange(const Call& call, std::uint64_t longest) {
    const Round round(*this, call, longest);
    for (int step = 1; step < size_; ++step) {
      meet(rank_ + step < size_ ? rank_ + step : rank_ + step - size_);
    }
    compared_ = round_;
  }

  /// The same for data that goes one way, of the rank that sends it: waits for no one. `to`: the
  /// rank that reads it, or kToAll. Throws ShmStopped also if there is no wait.
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

  /// And of a rank that reads it: waits for `from` only. Throws as exchange().
  void receive(const Call& call, int from) {
    const Round round(*this, call, 0);
    meet(from);
    if (size_ == 2) compared_ = round_;
  }

  /// Whether the next round, with data of kShmShort at most, begins without a wait for others: its
  /// slot may be written. Then send() does not wait at all.
  bool can_begin();
  /// Whether another rank has shown the next round, or does so in a moment: what is read of it in
  /// that needs no wait.
  bool is_ahead(int other, std::size_t bytes) const;

  /// Throws ShmStopped after stop(), as exchange() would if it began now: for ranks that work for
  /// long between two rounds.
  void check_stopped() const;

  /// What another rank has shown in this round, until the next one begins: its `longest`.
  std::uint64_t longest_of(int rank) const { return slot(rank, round_).longest; }
  /// And its data, so many bytes in all, as it said to out().
  const char* data_of(int rank, std::size_t bytes) const { return place(rank, round_, bytes); }

  /// After a failure: what another rank has shown in one of the last rounds; null: nothing yet.
  const Call* call_of(int rank, std::uint64_t round) const {
    return has_shown(rank, round) ? &slot(rank, round).call : nullptr;
  }
  /// And this rank's calls in those that another has not come to, oldest first.
  std::vector<Call> calls_after(int rank) const;

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
  void fetch_next_slot() const;
  void wait_for(int rank, std::uint64_t round) {
    if (!has_shown(rank, round) && !spin_for(rank, round)) sleep_for(rank, round);
  }
  /// Waits until another has shown this round, and compares all of its calls that have not been.
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
  /// Whether another has shown this call in the round; false also if it is not known yet.
  bool is_alike(int other, std::uint64_t round) const {
    const ShmDigests& line = digests(other, round);
    return line.of[round % kShmDigests].load(std::memory_order_acquire) ==
           digests_[round % kShmSlots];
  }
  /// Before this rank writes to its next slot.
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
  /// The round up to which calls are compared before the next is begun, if that has to be: to the
  /// end of a line of digests, so that the next rounds need not.
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
  std::array<Call, kShmSlots> calls_ = {};  // of this rank: its slots may be in other caches
  std::array<std::uint64_t, kShmSlots> digests_ = {};  // the same
  std::uint64_t sent_ = 0;                             // the last round of send()
  int sent_to_ = kToAll;
  std::size_t shown_bytes_ = 0;  // of the last data in a slot
  std::uint64_t waits_ = 0;
  std::chrono::nanoseconds spin_{};  // how long the next wait spins
  bool loses_processor_ = false;     // to other programs, for long, when it gives it away
  std::uint64_t waits_per_spin_ = 1;
  std::uint64_t next_spin_ = 0;  // the wait that spins, if loses_processor_
  std::atomic<int> stopped_by_ = -1;
};

}  // namespace ddp::internal
