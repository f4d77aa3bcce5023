// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/flight_recorder.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace ddp::internal {
namespace {

using Words = std::array<std::uint64_t, sizeof(Call) / 8>;

// Flags of Slot::end. While the call is under way, the other bits are its id: so the end of an old
// call does not end a newer one that has overwritten it. Afterwards they are the time.
constexpr std::uint64_t kUnderWay = std::uint64_t{1} << 63;
constexpr std::uint64_t kFailed = std::uint64_t{1} << 62;

std::uint64_t to_word(FlightRecorder::Time time) {
  using std::chrono::nanoseconds;
  return static_cast<std::uint64_t>(nanoseconds(time.time_since_epoch()).count());
}

FlightRecorder::Time to_time(std::uint64_t word) {
  return FlightRecorder::Time(std::chrono::nanoseconds(static_cast<std::int64_t>(word)));
}

}  // namespace

FlightRecorder& FlightRecorder::of_process() {
  // Never destroyed: a thread may end its last call while the process ends.
  static auto* const recorder = new FlightRecorder;
  return *recorder;
}

int FlightRecorder::add(Group group) {
  const std::lock_guard lock(mutex_);
  groups_.emplace(group_count_, std::move(group));
  return group_count_++;
}

void FlightRecorder::remove(int group) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(group);
  if (ended_.size() <= kKeptGroups) return;
  groups_.erase(ended_.front());
  ended_.pop_front();
}

FlightRecorder::CallId FlightRecorder::begin(int group, const Call& call, Time now) noexcept {
  const CallId id = next_.fetch_add(1, std::memory_order_relaxed);
  write(id, group, call, now, id | kUnderWay);
  return id;
}

void FlightRecorder::record(int group, const Call& call, Time at) noexcept {
  write(next_.fetch_add(1, std::memory_order_relaxed), group, call, at, to_word(at));
}

// Every word is stored with release and loaded with acquire, so if entries() sees a word of the
// next call, it sees `written` change. On x86 this costs nothing; fences would.
void FlightRecorder::write(CallId id, int group, const Call& call, Time begun,
                           std::uint64_t end) noexcept {
  Slot& slot = slots_[id % kSize];
  const auto words = std::bit_cast<Words>(call);
  slot.written.store(0, std::memory_order_relaxed);
  slot.group.store(static_cast<std::uint64_t>(group), std::memory_order_release);
  slot.begun.store(to_word(begun), std::memory_order_release);
  slot.end.store(end, std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) {
    slot.call[i].store(words[i], std::memory_order_release);
  }
  slot.written.store(id + 1, std::memory_order_release);
}

void FlightRecorder::end(CallId id, bool succeeded, Time now) noexcept {
  std::uint64_t expected = id | kUnderWay;
  slots_[id % kSize].end.compare_exchange_strong(expected,
                                                 to_word(now) | (succeeded ? 0 : kFailed));
}

std::vector<FlightRecorder::Entry> FlightRecorder::entries() const {
  constexpr auto kAcquire = std::memory_order_acquire;
  std::vector<Entry> found;
  const CallId next = next_.load(kAcquire);
  for (CallId id = next > kSize ? next - kSize : 0; id < next; ++id) {
    const Slot& slot = slots_[id % kSize];
    if (slot.written.load(kAcquire) != id + 1) continue;
    Entry entry;
    entry.group = static_cast<int>(slot.group.load(kAcquire));
    entry.begun = to_time(slot.begun.load(kAcquire));
    const std::uint64_t end = slot.end.load(kAcquire);
    Words words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = slot.call[i].load(kAcquire);
    if (slot.written.load(kAcquire) != id + 1) continue;  // a newer call is overwriting it
    entry.call = std::bit_cast<Call>(words);
    if ((end & kUnderWay) == 0) {
      entry.state = (end & kFailed) != 0 ? State::failed : State::done;
      entry.ended = to_time(end & ~kFailed);
    }
    found.push_back(entry);
  }
  return found;
}

std::map<int, FlightRecorder::Group> FlightRecorder::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

}  // namespace ddp::internal
