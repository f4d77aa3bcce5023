// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/call/call.h"

namespace ddp::internal {

/// The last calls of this process, of all its groups: cheap enough to be always on. No lock, and
/// one cache line for each call.
///
/// Thread: any, several at once.
class FlightRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Ticket = std::uint64_t;

  /// How many calls it keeps.
  static constexpr std::size_t kSize = 2048;

  enum class State { begun, done, failed };

  struct Entry {
    int group = 0;
    Call call;
    State state = State::begun;
    Time begun;
    Time ended;  ///< of one that is over
  };

  struct Group {
    std::string name;        ///< equal on all ranks, and no other group's
    std::string backend;     ///< what moves its data
    int rank = 0;            ///< this process's in it
    std::vector<int> ranks;  ///< by rank in it, the rank in the first group
  };

  /// The one of this process.
  static FlightRecorder& of_process();

  /// A group begins and ends. Those that ended are forgotten in time.
  int add(Group group);
  void remove(int group);

  Ticket begin(int group, const Call& call, Time now) noexcept;
  /// Nothing happens where newer calls have taken the place.
  void end(Ticket ticket, bool well, Time now) noexcept;

  /// Oldest first.
  std::vector<Entry> entries() const;
  std::map<int, Group> groups() const;

 private:
  static constexpr std::size_t kKeptGroups = 64;  // of those that ended

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> written = 0;  // the ticket + 1; 0 while it is being written
    std::atomic<std::uint64_t> group = 0;
    std::atomic<std::uint64_t> begun = 0;
    std::atomic<std::uint64_t> end = 0;
    std::array<std::atomic<std::uint64_t>, sizeof(Call) / 8> call = {};
  };

  std::array<Slot, kSize> slots_;
  std::atomic<Ticket> next_ = 0;

  mutable std::mutex mutex_;  // of what follows
  std::map<int, Group> groups_;
  std::deque<int> ended_;
  int groups_so_far_ = 0;
};

}  // namespace ddp::internal
