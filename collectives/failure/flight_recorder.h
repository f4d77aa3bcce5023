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

/// A ring buffer of the last calls of this process, in all its groups. Cheap enough to be always
/// on: recording a call takes no lock and touches one cache line.
///
/// Thread: any, several at once.
class FlightRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using CallId = std::uint64_t;  ///< unique in the process

  /// The number of calls that are kept.
  static constexpr std::size_t kSize = 2048;

  enum class State { begun, done, failed };

  struct Entry {
    int group = 0;
    Call call;
    State state = State::begun;
    Time begun;
    Time ended;  ///< not set while begun
  };

  struct Group {
    std::string name;        ///< unique, the same on all ranks
    std::string backend;     ///< "cpu"
    int rank = 0;            ///< of this process in the group
    std::vector<int> ranks;  ///< by rank in the group, the rank in the first group
  };

  /// The recorder of this process. Never destroyed.
  static FlightRecorder& of_process();

  /// Registers a group and returns its number; unregisters it. The recorder keeps the last ended
  /// groups for the trace.
  int add(Group group);
  void remove(int group);

  /// Records that a call of the group with this number begins; below, that it ends.
  CallId begin(int group, const Call& call, Time now) noexcept;
  /// Records a call that has succeeded, begin and end.
  void record(int group, const Call& call, Time at) noexcept;
  /// Does nothing if a newer call has overwritten the entry.
  void end(CallId id, bool succeeded, Time now) noexcept;

  /// The calls, oldest first.
  std::vector<Entry> entries() const;
  std::map<int, Group> groups() const;

 private:
  static constexpr std::size_t kKeptGroups = 64;  // ended groups

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> written = 0;  // the id + 1; 0 while it is being written
    std::atomic<std::uint64_t> group = 0;
    std::atomic<std::uint64_t> begun = 0;
    std::atomic<std::uint64_t> end = 0;
    std::array<std::atomic<std::uint64_t>, sizeof(Call) / 8> call = {};
  };

  void write(CallId id, int group, const Call& call, Time begun, std::uint64_t end) noexcept;

  std::array<Slot, kSize> slots_;
  std::atomic<CallId> next_ = 0;

  mutable std::mutex mutex_;  // protects what follows
  std::map<int, Group> groups_;
  std::deque<int> ended_;
  int group_count_ = 0;
};

}  // namespace ddp::internal
