// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/zero_copy.h"

#include <algorithm>
#include <utility>

#include "collectives/backends/shm/copy.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "collectives/call/route.h"

namespace ddp::internal {
namespace {

/// From here on the round that it takes more costs less than the copies.
constexpr std::size_t kLeast = std::size_t{64} << 10;

/// Up to here the root of a reduce of two ranks takes less time alone than both with copies.
constexpr std::size_t kMostAlone = std::size_t{1} << 20;

/// Between two looks whether the call has failed.
constexpr std::size_t kStretch = std::size_t{256} << 10;

/// So shares begin with a cache line, if the data does.
constexpr std::size_t kLine = 64;

bool is_own_block(const Task& task, int rank) {
  const std::size_t block = task.count * size_of(task.type);
  return task.in == static_cast<const char*>(task.out) + block * static_cast<std::size_t>(rank);
}

}  // namespace

ShmZeroCopy::ShmZeroCopy(const ShmHeap& heap, const ShmRounds& rounds, int rank, int size)
    : heap_(heap),
      rounds_(rounds),
      rank_(rank),
      size_(size),
      parts_(static_cast<std::size_t>(size)) {}

bool ShmZeroCopy::suits(const Task& task) const {
  const std::size_t bytes = task.count * size_of(task.type);
  switch (task.operation) {
    case Operation::all_reduce:
    case Operation::broadcast:
      return bytes >= kLeast;
    case Operation::reduce:
      return size_ == 2 && bytes >= kLeast && bytes <= kMostAlone;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return bytes * static_cast<std::size_t>(size_) >= kLeast;
    default:
      return false;
  }
}

std::array<std::uint64_t, 2> ShmZeroCopy::Places::numbers() const {
  return {in.number(), is_in_place ? 1 : out.number()};
}

ShmZeroCopy::Places ShmZeroCopy::find(const Task& task) const {
  const std::size_t bytes = task.count * size_of(task.type);
  const std::size_t blocks = bytes * static_cast<std::size_t>(size_);
  switch (task.operation) {
    case Operation::all_reduce: {
      ShmPlace out = heap_.find(task.out, bytes);
      return out.number() == 0 ? Places{} : Places{heap_.find(task.in, bytes), std::move(out)};
    }
    case Operation::all_gather:
      if (is_own_block(task, rank_)) return {heap_.find(task.out, blocks), {}, true};
      return {heap_.find(task.in, bytes), {}};
    case Operation::broadcast:
    case Operation::reduce:
      return {heap_.find(task.in, bytes), {}};
    case Operation::all_to_all:
      if (task.in == task.out) return {};  // others would read what this rank has received
      return {heap_.find(task.in, blocks), {}};
    default:
      return {heap_.find(task.in, blocks), {}};
  }
}

void ShmZeroCopy::run(const Task& task, const Places& places) {
  switch (task.operation) {
    case Operation::all_reduce:
      all_reduce(task, places);
      break;
    case Operation::reduce:
      if (rank_ == task.root) reduce(task, places.in, 0);
      break;
    case Operation::reduce_scatter:
      reduce(task, places.in, rank_);
      break;
    case Operation::broadcast:
      broadcast(task, places);
      break;
    default:
      fetch(task, places);
  }
  end_results(task.count * size_of(task.type) * static_cast<std::size_t>(size_));
}

/// Of the data of all ranks, so many bytes from `at` on: not more than results_ has room for.
const char* ShmZeroCopy::combine(const Task& task, const ShmPlace& in, std::size_t at,
                                 std::size_t bytes) {
  rounds_.check_stopped();
  for (int rank = 0; rank < size_; ++rank) {
    parts_[static_cast<std::size_t>(rank)] = in.of(rank) + at;
  }
  reduction(task.type, task.reduce)
      .combine(results_.data(), parts_.data(), size_, bytes / size_of(task.type));
  return results_.data();
}

/// The share of this rank, in whole cache lines of the data.
void ShmZeroCopy::all_reduce(const Task& task, const Places& places) {
  const std::size_t total = task.count * size_of(task.type);
  // In place, what is written was read just before, so it is in the caches.
  const std::size_t whole = task.in == task.out ? 0 : total;
  const Blocks lines = Blocks::even(total / kLine, size_);
  const bool is_last = rank_ + 1 == size_;
  const std::size_t end = is_last ? total : lines.begin(rank_ + 1) * kLine;
  for (std::size_t at = lines.begin(rank_) * kLine; at < end; at += results_.size()) {
    const std::size_t length = std::min(results_.size(), end - at);
    const char* const sums = combine(task, places.in, at, length);
    for (int step = 0; step < size_; ++step) {
      const int rank = (rank_ + step) % size_;
      const char* const next = places.in.of(rank) + at + length;
      copy_result(places.out.of(rank) + at, sums, length, whole, next);
    }
  }
}

/// One block of the data, to this rank.
void ShmZeroCopy::reduce(const Task& task, const ShmPlace& in, int block) {
  const std::size_t bytes = task.count * size_of(task.type);
  const std::size_t begin = bytes * static_cast<std::size_t>(block);
  char* const out = static_cast<char*>(task.out);
  for (std::size_t at = 0; at < bytes; at += results_.size()) {
    const std::size_t length = std::min(results_.size(), bytes - at);
    copy_result(out + at, combine(task, in, begin + at, length), length, bytes);
  }
}

/// Each of the others copies most of the data, and the root what is left of each: so all copy about
/// as much.
void ShmZeroCopy::broadcast(const Task& task, const Places& places) const {
  const std::size_t total = task.count * size_of(task.type);
  const std::size_t most = Blocks::even(total / kLine, size_).begin(size_ - 1) * kLine;
  const char* const data = places.in.of(task.root);
  if (rank_ != task.root) return copy(places.in.of(rank_), data, most, total);
  for (int step = 1; step < size_; ++step) {
    char* const to = places.in.of((rank_ + step) % size_);
    copy(to + most, data + most, total - most, total);
  }
}

/// Copies what the other ranks would send to this one.
void ShmZeroCopy::fetch(const Task& task, const Places& places) const {
  const Route route(task, rank_, size_);
  const std::size_t block = places.is_in_place ? task.count * size_of(task.type) : 0;
  for (int step = 1; step < size_; ++step) {
    const int other = (rank_ + step) % size_;
    const Incoming in = route.from(other);
    Task theirs = task;
    theirs.in = places.in.of(other) + block * static_cast<std::size_t>(other);
    const char* const from = Route(theirs, other, size_).to(rank_).data;
    copy(in.data, from, in.bytes, in.bytes * static_cast<std::size_t>(size_));
  }
  copy_own(route, rank_);
}

/// A part of a result of `whole` bytes.
void ShmZeroCopy::copy(char* to, const char* from, std::size_t bytes, std::size_t whole) const {
  for (std::size_t at = 0; at < bytes; at += kStretch) {
    rounds_.check_stopped();
    copy_result(to + at, from + at, std::min(kStretch, bytes - at), whole);
  }
}

}  // namespace ddp::internal
