// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/rounds.h"

#include <algorithm>
#include <chrono>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddp::internal {
namespace {

/// About what waking up costs.
constexpr auto kLongestSpin = std::chrono::microseconds(50);
/// More than all other ranks need, and less than a time slice.
constexpr auto kLongYield = std::chrono::microseconds(500);
/// One wait of so many spins as long as it may, however many spins before it found nothing.
constexpr std::uint64_t kWaitsPerProbe = 32;
constexpr std::uint64_t kMostWaitsPerSpin = 4096;
constexpr int kLooksPerClock = 128;
/// Before the first look at the clock, which takes about as long as a rank that is on time does.
constexpr int kFirstLooks = 32;

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
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
  ++round_;
  ShmSlot& own = slot(rank_, round_);
  own.call = call;
  own.longest = longest;
  own.round.store(round_, std::memory_order_release);
}

/// Once in a round: who begins to wait after that sees what this rank has shown.
void ShmRounds::wake_waiting() const {
  std::atomic<std::uint64_t>& shown = members_[rank_].shown;
  if (shown.load(std::memory_order_relaxed) == round_) return;
  shown = round_;
  for (int other = 0; other < size_; ++other) {
    if (members_[other].waits_for == rank_ + 1) ring(members_[other].bell);
  }
}

/// Spinning gains nothing where the other rank does not run meanwhile, as it computes. So each spin
/// that finds nothing halves the next. Between looks the processor is given to whoever waits for
/// it: with more ranks than processors, and also where the scheduler has put two ranks on one, that
/// is the other rank.
bool ShmRounds::spin_for(int rank) {
  if (has_own_cpu_ && looks_find(rank, kFirstLooks)) return true;
  wake_waiting();
  if (++waits_ % kWaitsPerProbe == 0) spin_ = kLongestSpin;
  if (loses_processor_ && waits_ < next_spin_) return false;
  const auto begin = std::chrono::steady_clock::now();
  auto took = std::chrono::nanoseconds(0);
  bool found = false;
  do {
    found = looks_find(rank, has_own_cpu_ ? kLooksPerClock : 1);
    if (!found) ::sched_yield();
    took = std::chrono::steady_clock::now() - begin;
  } while (!found && took < spin_);
  spin_ = found ? kLongestSpin : spin_ / 2;
  note_loss(took > kLongYield);
  return found;
}

/// On a machine that is busy with other programs, a processor that is given away comes back after
/// milliseconds; after a sleep it comes back at once. So the longer that goes on, the rarer spins
/// are.
void ShmRounds::note_loss(bool lost) {
  if (!lost && !loses_processor_) return;
  loses_processor_ = lost;
  waits_per_spin_ = lost ? std::min(waits_per_spin_ * 2, kMostWaitsPerSpin)
                         : std::max(waits_per_spin_ / 2, std::uint64_t{1});
  next_spin_ = waits_ + waits_per_spin_;
}

bool ShmRounds::looks_find(int rank, int looks) const {
  for (int look = 0; look < looks; ++look) {
    if (has_shown(rank)) return true;
    if (look % 4 == 3) pause_processor();
  }
  return false;
}

void ShmRounds::sleep_for(int rank) {
  ShmMember& own = members_[rank_];
  while (true) {
    const std::uint32_t bell = own.bell;
    const int stopped_by = stopped_by_;
    own.waits_for = rank + 1;
    if (members_[rank].shown >= round_ || has_shown(rank)) break;
    // Only now: what a rank showed before it was lost counts.
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
