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

CpuRings::CpuRings(boost::asio::io_context& context, RunLocked run_locked, int ranks)
    : io_context_(context),
      run_locked_(std::move(run_locked)),
      idle_timer_(context),
      links_(static_cast<std::size_t>(ranks)) {}

void CpuRings::use(ShmRings rings) {
  rings_.emplace(std::move(rings));
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    if (!links_[static_cast<std::size_t>(rank)]) continue;
    offer(rank);
    if (link(rank).is_offered) turn(rank);
  }
}

void CpuRings::add(int rank, CpuPeer& peer, const std::shared_ptr<RecvConnection>& connection) {
  link(rank).peer = &peer;
  link(rank).from = connection;
  offer(rank);
}

void CpuRings::begin_use(int rank) {
  if (!std::exchange(link(rank).is_used, true)) offer(rank);
}

/// Lets the sender write to a ring that this rank reads, if there is memory for it.
void CpuRings::offer(int rank) {
  const Link& sender = link(rank);
  if (!rings_ || !sender.is_used || !sender.from || sender.from->is_closed()) return;
  auto ring = rings_->from(rank);
  if (!ring) return;
  link(rank).from->set_ring(std::move(*ring));
  link(rank).from->set_awake(awake_);
  read_from_.push_back(&link(rank));
  link(rank).peer->offer_ring(rings_->heap());
}

bool CpuRings::on_offer(int rank) {
  if (std::exchange(link(rank).is_offered, true)) return false;
  turn(rank);
  return true;
}

bool CpuRings::on_turn(int rank) {
  return link(rank).from->turn_to_ring();
}

void CpuRings::turn(int rank) {
  auto ring = rings_ ? rings_->to(rank) : std::nullopt;
  if (!ring) return;
  CpuPeer& peer = *link(rank).peer;
  peer.use_ring(std::move(*ring));
  peer.set_awake(awake_);
  written_to_.push_back(&peer);
}

RecvConnection* CpuRings::fast_lane_of(int rank) {
  RecvConnection* const from = link(rank).from.get();
  if (!awake_ || from == nullptr || !from->has_ring() || !rings_->have_own_cpus()) return nullptr;
  is_idle_ = false;  // so that it stays awake
  return from;
}

void CpuRings::read(int rank) {
  if (link(rank).from) link(rank).from->read_ring();
}

/// Moves data in the rings; returns whether anything was read.
bool CpuRings::move() {
  bool moved = false;
  for (const Link* const each : read_from_) moved = each->from->read_ring() || moved;
  moved = read_memory() || moved;
  for (CpuPeer* const peer : written_to_) peer->go_on();
  return moved;
}

/// Reads one turn of each rank; returns whether anything was read.
bool CpuRings::read_memory() {
  bool moved = false;
  for (const Link* const each : read_from_) moved = each->peer->read_memory(*each->from) || moved;
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
  for (const Link* const each : read_from_) {
    each->from->set_awake(awake);
    if (each->peer->is_reading()) read_memory_later();
  }
  for (CpuPeer* const peer : written_to_) peer->set_awake(awake);
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
    if (mover.is_done() || read_from_.empty()) return;
    ++movers_;
    mover.is_counted = true;
    mover.has_own_cpu = rings_->have_own_cpus();
  }
  if (!awake_) set_awake(true);
  if (!watches_idleness_) watch_idleness();
  const bool moved = move();
  const auto now = Clock::now();
  if (moved || mover.end == Clock::time_point{}) {
    const bool is_read = std::ranges::any_of(written_to_, &CpuPeer::is_awaited);
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
