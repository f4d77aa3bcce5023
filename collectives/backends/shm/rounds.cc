// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/rounds.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collectives/backends/shm/processor.h"

namespace ddp::internal {
namespace {

/// About the cost of waking up.
constexpr auto kLongestSpin = std::chrono::microseconds(50);
/// More than all other ranks need, and less than a time slice.
constexpr auto kLongYield = std::chrono::microseconds(500);
/// One wait in so many spins for the longest time, however many spins before it found nothing.
constexpr std::uint64_t kWaitsPerProbe = 32;
constexpr std::uint64_t kMostWaitsPerSpin = 4096;
constexpr int kLooksPerClock = 128;
/// Looks before the first look at the clock, which takes about as long as a rank that is on time
/// does.
constexpr int kFirstLooks = 32;

/// See ShmMember::digests.
std::uint64_t digest_of(const Call& call, std::uint64_t round) {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // 2^64 by the golden ratio
  std::uint64_t digest = round * kSpread;  // spread before a number that grows like it is added
  for (const auto word : std::bit_cast<std::array<std::uint64_t, sizeof(Call) / 8>>(call)) {
    digest = (digest ^ digest >> 32 ^ word) * kSpread;
  }
  return digest;
}

/// Sleeps while the bell has this value.
void futex_wait(std::atomic<std::uint32_t>& bell, std::uint32_t value) {
  ::syscall(SYS_futex, &bell, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

void ring(std::atomic<std::uint32_t>& bell) {
  bell.fetch_add(1);
  ::syscall(SYS_futex, &bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace

void ShmRounds::show(const Call& call, std::uint64_t longest) {
  if (stopped_by_.load(std::memory_order_relaxed) == rank_) throw ShmStopped(rank_);
  make_room();
  ++round_;
  ShmSlot& own = slot(rank_, round_);
  own.call = call;
  calls_[round_ % kShmSlots] = call;
  own.longest = longest;
  own.round.store(round_, std::memory_order_release);
  const std::uint64_t digest = digest_of(call, round_);
  digests_[round_ % kShmSlots] = digest;
  digests(rank_, round_).of[round_ % kShmDigests].store(digest, std::memory_order_release);
  if (round_ % kShmDigests == 0) prefetch_to_write(&digests(rank_, round_ + kShmDigests));
}

/// Fetches the part that this rank will write if its data is like the last. Hardly anybody reads it
/// any more. After an exchange() this gains nothing: the other ranks are at their next round, too.
void ShmRounds::fetch_next_slot() const {
  prefetch_to_write(&slot(rank_, round_ + 1));
  const char* const data = place(rank_, round_ + 1, shown_bytes_);
  for (std::size_t at = 0; at < shown_bytes_; at += kShmLine) prefetch_to_write(data + at);
}

/// Waits until every other rank has shown this round, and compares all calls up to it.
void ShmRounds::meet_all(std::uint64_t last) {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    for (std::uint64_t round = compared_ + 1; round <= last; ++round) {
      if (!is_alike(other, round)) meet(other, round);
    }
  }
  compared_ = last;
}

bool ShmRounds::can_begin() {
  if (has_room()) return true;
  if (!are_alike(end_of_digests())) return false;
  compared_ = end_of_digests();
  return true;
}

bool ShmRounds::are_alike(std::uint64_t last) const {
  for (int other = 0; other < size_; ++other) {
    for (std::uint64_t round = compared_ + 1; round <= last; ++round) {
      if (other != rank_ && !is_alike(other, round)) return false;
    }
  }
  return true;
}

/// If a rank's slot is there at once, the rank is likely to be further ahead. (Fetching more than
/// one line of data made calls slower.)
bool ShmRounds::is_ahead(int other, std::size_t bytes) const {
  const std::uint64_t next = round_ + 1;
  if (has_shown(other, next)) {
    prefetch_to_read(&slot(other, next + 1));
  } else if (!looks_find(other, next, has_own_cpu_ ? kFirstLooks : 1)) {
    return false;
  }
  prefetch_to_read(place(other, next, bytes));
  return true;
}

/// Compares the calls of ranks that sent, as this one did, and so compare none themselves. If calls
/// are alike, hardly any rank has sent that this one sent to, so looking costs nothing.
void ShmRounds::look_at_senders() const {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_ || (sent_to_ != kToAll && sent_to_ != other)) continue;
    if (members_[other].sent.load(std::memory_order_acquire) <= compared_) continue;
    for (std::uint64_t round = compared_ + 1; round <= round_ && has_shown(other, round); ++round) {
      compare(other, round);
    }
  }
}

/// Works once a round: a rank that begins to wait later sees what this rank has shown.
void ShmRounds::wake_waiting() const {
  std::atomic<std::uint64_t>& shown = members_[rank_].shown;
  if (shown.load(std::memory_order_relaxed) == round_) return;
  shown = round_;
  ring_waiting();
}

void ShmRounds::ring_waiting() const {
  for (int other = 0; other < size_; ++other) {
    if (members_[other].waits_for == rank_ + 1) ring(members_[other].bell);
  }
}

void ShmRounds::leave() {
  members_[rank_].has_left = 1;
  ring_waiting();
}

/// If two ranks leave at the same time, at least one of them sees all calls of the other.
std::optional<ShmRounds::LateDifference> ShmRounds::late_difference() const {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    const bool is_all = has_left(other);
    for (std::uint64_t round = compared_ + 1; round <= round_ + 1; ++round) {
      const Call* const ours = round <= round_ ? &calls_[round % kShmSlots] : nullptr;
      const Call* const theirs = call_of(other, round);
      const bool is_one_missing = ours == nullptr || theirs == nullptr;
      if (is_one_missing && (!is_all || ours == theirs)) break;
      if (is_one_missing || *ours != *theirs) return LateDifference{other, ours, theirs};
    }
  }
  return std::nullopt;
}

/// Spinning gains nothing while the other rank does not run, as it computes. So each spin that
/// finds nothing halves the next. Between looks any waiting thread gets the processor. With more
/// ranks than processors, or if the scheduler has put two ranks on one, that is the other rank.
bool ShmRounds::spin_for(int rank, std::uint64_t round) {
  if (has_own_cpu_ && looks_find(rank, round, kFirstLooks)) return true;
  wake_waiting();
  if (++waits_ % kWaitsPerProbe == 0) spin_ = kLongestSpin;
  if (loses_processor_ && waits_ < next_spin_) return false;
  const auto begin = std::chrono::steady_clock::now();
  auto took = std::chrono::nanoseconds(0);
  bool found = false;
  do {
    found = looks_find(rank, round, has_own_cpu_ ? kLooksPerClock : 1);
    if (!found) ::sched_yield();
    took = std::chrono::steady_clock::now() - begin;
  } while (!found && took < spin_);
  spin_ = found ? kLongestSpin : spin_ / 2;
  note_loss(took > kLongYield);
  return found;
}

/// If a machine is busy with other programs, a processor that is given away comes back after
/// milliseconds; after a sleep it comes back at once. So the longer that lasts, the rarer spins
/// are.
void ShmRounds::note_loss(bool lost) {
  if (!lost && !loses_processor_) return;
  loses_processor_ = lost;
  waits_per_spin_ = lost ? std::min(waits_per_spin_ * 2, kMostWaitsPerSpin)
                         : std::max(waits_per_spin_ / 2, std::uint64_t{1});
  next_spin_ = waits_ + waits_per_spin_;
}

bool ShmRounds::looks_find(int rank, std::uint64_t round, int looks) const {
  for (int look = 0; look < looks; ++look) {
    if (has_shown(rank, round)) return true;
    if (look % 4 == 3) pause_processor();
  }
  return false;
}

void ShmRounds::sleep_for(int rank, std::uint64_t round) {
  ShmMember& own = members_[rank_];
  while (true) {
    const std::uint32_t bell = own.bell;
    const int stopped_by = stopped_by_;
    own.waits_for = rank + 1;
    const bool will_show = !has_left(rank);
    if (members_[rank].shown >= round || has_shown(rank, round)) break;
    // Only now: what a rank showed before it left or was lost still counts.
    if (!will_show) throw ShmStopped(rank);
    if (stopped_by >= 0) throw ShmStopped(stopped_by);
    futex_wait(own.bell, bell);
  }
  own.waits_for = 0;
}

void ShmRounds::check_stopped() const {
  const int stopped_by = stopped_by_;
  if (stopped_by < 0) return;
  bool must_wait = stopped_by == rank_;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    must_wait |= slot(other, round_ + 1).round.load(std::memory_order_acquire) != round_ + 1;
  }
  if (must_wait) throw ShmStopped(stopped_by);
}

void ShmRounds::stop(int rank) noexcept {
  int none = -1;
  stopped_by_.compare_exchange_strong(none, rank);
  ring(members_[rank_].bell);
}

}  // namespace ddp::internal
