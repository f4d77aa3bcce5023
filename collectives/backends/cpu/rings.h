// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectives/backends/cpu/peer.h"
#include "collectives/backends/shm/ring.h"

namespace ddp::internal {

/// The rings between this rank and others of its node, and who looks at them. Threads that wait for
/// a message read and write the rings themselves, and spin for a moment. While some do, and for a
/// moment longer, the other ranks need not wake this one. After that they wake the thread of the
/// io_context, which does it. The same holds for long messages that are read in the sender's
/// memory.
///
/// Thread: any, under the lock of `run_locked`, which move_until() takes itself.
class CpuRings {
 public:
  CpuRings(boost::asio::io_context& context, RunLocked run_locked);

  /// From now on there are these rings. join() has to be called for each peer.
  void use(ShmRings rings) { rings_.emplace(std::move(rings)); }

  /// Lets the two ranks use a ring in each direction for which both are ready. `peer` must outlive
  /// this.
  void join(int rank, CpuPeer& peer);

  /// Whether rings are looked at often, and there are enough CPUs to wait for one. If so, they are
  /// for a moment longer.
  bool keep_awake();

  /// Schedules CpuPeer::read_memory(), which has something to do.
  void read_memory_later();

  /// Moves what is in the rings until `is_done`, or nothing has come for a while.
  void move_until(const std::function<bool()>& is_done,
                  std::chrono::steady_clock::time_point deadline);

  /// How long to spin: about the cost of waking up.
  static constexpr std::chrono::microseconds kLongestSpin{50};

  void close() noexcept { idle_timer_.cancel(); }

 private:
  /// A thread in move_until().
  struct Mover {
    const std::function<bool()>& is_done;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::steady_clock::time_point end = {};  ///< of spinning
    bool is_counted = false;                         ///< in movers_
    bool has_own_cpu = false;
    bool goes_on = false;
    int looks = 0;
  };

  bool move();
  void look(Mover& mover);
  bool read_memory();
  void set_awake(bool awake);
  void watch_idleness();

  boost::asio::io_context& io_context_;
  const RunLocked run_locked_;
  boost::asio::steady_timer idle_timer_;
  std::optional<ShmRings> rings_;
  std::vector<CpuPeer*> peers_;    // with a ring in a direction
  int movers_ = 0;                 // threads in move_until()
  bool awake_ = false;             // the rings are looked at often: nobody has to wake this rank
  bool is_idle_ = true;            // no thread has looked at them since the timer was set
  bool watches_idleness_ = false;  // the timer runs
  bool reads_later_ = false;       // read_memory() is about to be called in the background
};

}  // namespace ddp::internal
