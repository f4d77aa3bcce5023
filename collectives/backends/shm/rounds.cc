// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/rounds.h"

#include <chrono>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddp::internal {
namespace {

/// About what waking up costs.
constexpr auto kLongestSpin = std::chrono::microseconds(50);
/// One wait of so many spins as long as it may, however many spins before it found nothing.
constexpr std::uint64_t kWaitsPerProbe = 32;
constexpr int kLooksPerClock = 32;

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

void ShmRounds::exchange(const Call& call, std::uint64_t longest,
                         const std::function<void(int rank)>& shown) {
  if (stopped_by_ == rank_) throw ShmStopped(rank_);
  ++round_;
  ShmSlot& own = slot(rank_, round_);
  own.call = call;
  own.longest = longest;
  own.round = round_;
  wake_waiting();
  for (int step = 1; step < size_; ++step) {
    const int other = (rank_ + step) % size_;
    if (!has_shown(other) && !spin_for(other)) sleep_for(other);
    if (shown) shown(other);
  }
}

void ShmRounds::wake_waiting() const {
  for (int other = 0; other < size_; ++other) {
    if (members_[other].waits_for == rank_ + 1) ring(members_[other].bell);
  }
}

/// Spinning gains nothing where the other rank does not run meanwhile: it computes, or it waits for
/// this very processor, as on a busy machine. So each spin that finds nothing halves the next.
bool ShmRounds::spin_for(int rank) {
  if (!spins_) return false;
  if (++waits_ % kWaitsPerProbe == 0) spin_ = kLongestSpin;
  const auto end = std::chrono::steady_clock::now() + spin_;
  do {
    for (int look = 0; look < kLooksPerClock; ++look) {
      if (slot(rank, round_).round.load(std::memory_order_acquire) == round_) {
        spin_ = kLongestSpin;
        return true;
      }
      pause_processor();
    }
  } while (std::chrono::steady_clock::now() < end);
  spin_ /= 2;
  return false;
}

void ShmRounds::sleep_for(int rank) {
  ShmMember& own = members_[rank_];
  while (true) {
    const std::uint32_t bell = own.bell;
    const int stopped_by = stopped_by_;
    own.waits_for = rank + 1;
    if (has_shown(rank)) break;
    // Only now: what a rank showed before it was lost counts.
    if (stopped_by >= 0) throw ShmStopped(stopped_by);
    futex_wait(own.bell, bell);
  }
  own.waits_for = 0;
}

void ShmRounds::stop(int rank) noexcept {
  int none = -1;
  stopped_by_.compare_exchange_strong(none, rank);
  ring(members_[rank_].bell);
}

}  // namespace ddp::internal
