// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/rings.h"

#include <algorithm>
#include <sched.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "collectives/backends/shm/processor.h"

namespace ddp::internal {
namespace {

using Clock = std::chrono::steady_clock;

/// How long other ranks do not wake this one after a thread has looked at the rings.
constexpr auto kIdle = std::chrono::microseconds(300);
constexpr int kLooksPerYield = 64;
/// The first looks, at a time when short messages come, are with the lock taken once.
constexpr int kLooksAtOnce = 16;
/// A look uses many of the processor's units. If another rank's thread was on the same core, a long
/// message took it up to a tenth more time without these pauses.
constexpr int kPausesPerLook = 16;
/// If another rank reads a long message, this rank is notified after each turn.
constexpr int kTurnInSpins = 4;

}  // namespace

CpuRings::CpuRings(boost::asio::io_context& context, RunLocked run_locked)
    : io_context_(context), run_locked_(std::move(run_locked)), idle_timer_(context) {}

/// If there is no memory for a ring, messages stay on the connection.
void CpuRings::join(int rank, CpuPeer& peer) {
  if (!rings_) return;
  auto from = peer.needs_ring() ? rings_->from(rank) : std::nullopt;
  if (from) peer.offer_ring(std::move(*from), rings_->heap());
  auto to = peer.is_offered_ring() ? rings_->to(rank) : std::nullopt;
  if (to) peer.use_ring(std::move(*to));
  if (!from && !to) return;
  peer.set_awake(awake_);
  if (std::ranges::count(peers_, &peer) == 0) peers_.push_back(&peer);
}

bool CpuRings::keep_awake() {
  if (!awake_ || !rings_->have_own_cpus()) return false;
  is_idle_ = false;
  return true;
}

/// Moves data in the rings; returns whether anything was read.
bool CpuRings::move() {
  bool moved = false;
  for (CpuPeer* const peer : peers_) moved = peer->read_ring() || moved;
  moved = read_memory() || moved;
  for (CpuPeer* const peer : peers_) peer->go_on();
  return moved;
}

/// Reads one turn of each rank; returns whether anything was read.
bool CpuRings::read_memory() {
  bool moved = false;
  for (CpuPeer* const peer : peers_) moved = peer->read_memory() || moved;
  return moved;
}

/// Reads in the background, turn by turn, while no thread looks at the rings often.
void CpuRings::read_memory_later() {
  if (awake_ || std::exchange(reads_later_, true)) return;
  boost::asio::post(io_context_, [this] {
    run_locked_([&] {
      reads_later_ = false;
      if (read_memory()) read_memory_later();
    });
  });
}

void CpuRings::set_awake(bool awake) {
  awake_ = awake;
  for (CpuPeer* const peer : peers_) {
    peer->set_awake(awake);
    if (peer->is_reading()) read_memory_later();
  }
}

/// Moves data until no thread has looked at the rings for a while.
void CpuRings::watch_idleness() {
  watches_idleness_ = true;
  idle_timer_.expires_after(kIdle);
  idle_timer_.async_wait([this](const boost::system::error_code&) {
    run_locked_([&] {
      watches_idleness_ = false;
      if (movers_ == 0 && std::exchange(is_idle_, true)) return set_awake(false);
      move();
      watch_idleness();
    });
  });
}

void CpuRings::move_until(const std::function<bool()>& is_done, Clock::time_point deadline) {
  Mover mover{is_done, deadline};
  for (;;) {
    mover.goes_on = false;
    run_locked_([this, &mover] {
      do {
        look(mover);
        ++mover.looks;
      } while (mover.goes_on && mover.has_own_cpu && mover.looks < kLooksAtOnce);
    });
    if (!mover.goes_on) return;
    for (int i = 0; mover.looks > kLooksAtOnce && i < kPausesPerLook; ++i) pause_processor();
    if (!mover.has_own_cpu || mover.looks % kLooksPerYield == 0) ::sched_yield();
  }
}

void CpuRings::look(Mover& mover) {
  if (!mover.is_counted) {
    if (mover.is_done() || peers_.empty()) return;
    ++movers_;
    mover.is_counted = true;
    mover.has_own_cpu = rings_->have_own_cpus();
  }
  if (!awake_) set_awake(true);
  if (!watches_idleness_) watch_idleness();
  const bool moved = move();
  const auto now = Clock::now();
  if (moved || mover.end == Clock::time_point{}) {
    const bool is_read = std::ranges::any_of(peers_, &CpuPeer::is_awaited);
    mover.end = std::min(now + kLongestSpin * (is_read ? kTurnInSpins : 1), mover.deadline);
  }
  const bool is_done = mover.is_done();
  mover.goes_on = !is_done && now < mover.end;
  if (mover.goes_on) return;
  if (!is_done && movers_ == 1) set_awake(false);
  --movers_;
  is_idle_ = false;
}

}  // namespace ddp::internal
