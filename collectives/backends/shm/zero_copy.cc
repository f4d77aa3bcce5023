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

/// From this size on, the extra round costs less than the copies.
constexpr std::size_t kLeast = std::size_t{64} << 10;

/// The same for a reduce of more than two ranks, which takes more rounds.
constexpr std::size_t kLeastOfMany = std::size_t{256} << 10;

/// Up to this size the root of a reduce of two ranks is faster alone than if the other rank shows
/// it a share, if their caches are far from each other, and hardly slower if not.
constexpr std::size_t kMostByRoot = std::size_t{512} << 10;

/// The results of a reduce that a rank shows the root at once: both copy at the same time.
constexpr std::size_t kShown = kShmPiece / 2;

/// The data between two checks whether the call has failed.
constexpr std::size_t kStretch = std::size_t{256} << 10;

/// Shares begin with a cache line, if the data does.
constexpr std::size_t kLine = 64;

bool is_own_block(const Task& task, int rank) {
  const std::size_t block = task.count * size_of(task.type);
  return task.in == static_cast<const char*>(task.out) + block * static_cast<std::size_t>(rank);
}

}  // namespace

ShmZeroCopy::ShmZeroCopy(const ShmHeap& heap, ShmRounds& rounds, int rank, int size)
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
      return bytes >= (size_ == 2 ? kLeast : kLeastOfMany);
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return bytes * static_cast<std::size_t>(size_) >= kLeast;
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
    case Operation::barrier:
    case Operation::allocate:
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;
  }
  return false;
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
    case Operation::reduce_scatter:
      return {heap_.find(task.in, blocks), {}};
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
    case Operation::barrier:
    case Operation::allocate:
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;  // suits() is false
  }
  return {};
}

void ShmZeroCopy::run(const Task& task, const Places& places,
                      const std::function<void()>& exchange) {
  switch (task.operation) {
    case Operation::all_reduce:
      all_reduce(task, places);
      break;
    case Operation::reduce:
      reduce(task, places.in, exchange);
      break;
    case Operation::reduce_scatter:
      reduce_scatter(task, places.in);
      break;
    case Operation::broadcast:
      broadcast(task, places);
      break;
    case Operation::all_gather:
    case Operation::all_to_all:
      fetch(task, places);
      break;
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
    case Operation::barrier:
    case Operation::allocate:
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;  // suits() is false
  }
  end_results(task.count * size_of(task.type) * static_cast<std::size_t>(size_));
}

/// Combines the data of all ranks, `bytes` from `at` on: not more than results_ has room for.
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

/// Shares are whole cache lines, except at the end.
ShmZeroCopy::Share ShmZeroCopy::share_of(int rank, std::size_t total) const {
  const Blocks lines = Blocks::even(total / kLine, size_);
  return {lines.begin(rank) * kLine, rank + 1 == size_ ? total : lines.begin(rank + 1) * kLine};
}

void ShmZeroCopy::all_reduce(const Task& task, const Places& places) {
  const std::size_t total = task.count * size_of(task.type);
  // In place, what is written was just read, so it is in the caches.
  const std::size_t whole = task.in == task.out ? 0 : total;
  const Share own = share_of(rank_, total);
  for (std::size_t at = own.begin; at < own.end; at += results_.size()) {
    const std::size_t length = std::min(results_.size(), own.end - at);
    const char* const sums = combine(task, places.in, at, length);
    for (int step = 0; step < size_; ++step) {
      const int rank = (rank_ + step) % size_;
      const char* const next = places.in.of(rank) + at + length;
      copy_result(places.out.of(rank) + at, sums, length, whole, next);
    }
  }
}

/// Combines a part of a result of `whole` bytes.
void ShmZeroCopy::combine_to(char* to, const Task& task, const ShmPlace& in, Share part,
                             std::size_t whole) {
  for (std::size_t at = part.begin; at < part.end; at += results_.size()) {
    const std::size_t length = std::min(results_.size(), part.end - at);
    copy_result(to + (at - part.begin), combine(task, in, at, length), length, whole);
  }
}

void ShmZeroCopy::reduce_scatter(const Task& task, const ShmPlace& in) {
  const std::size_t block = task.count * size_of(task.type);
  const std::size_t begin = block * static_cast<std::size_t>(rank_);
  combine_to(static_cast<char*>(task.out), task, in, {begin, begin + block}, block);
}

/// Each rank combines a share, and shows it to the root piece by piece. In place, the root
/// overwrites only data of its own that the share's rank has already combined.
void ShmZeroCopy::reduce(const Task& task, const ShmPlace& in,
                         const std::function<void()>& exchange) {
  const std::size_t total = task.count * size_of(task.type);
  char* const out = static_cast<char*>(task.out);
  const bool is_root = rank_ == task.root;
  if (size_ == 2 && total <= kMostByRoot) {
    if (is_root) combine_to(out, task, in, {0, total}, total);
    return exchange();
  }
  const auto piece_of = [&](int rank, std::size_t at) {
    const Share share = share_of(rank, total);
    const std::size_t begin = std::min(share.begin + at, share.end);
    return Share{begin, std::min(begin + kShown, share.end)};
  };
  const Share last = share_of(size_ - 1, total);  // no share is longer
  for (std::size_t at = 0; at < last.end - last.begin; at += kShown) {
    const Share own = piece_of(rank_, at);
    combine_to(is_root ? out + own.begin : rounds_.out(kShmPiece), task, in, own,
               is_root ? total : 0);
    exchange();
    for (int other = 0; is_root && other < size_; ++other) {
      if (other == rank_) continue;
      const Share theirs = piece_of(other, at);
      copy_result(out + theirs.begin, rounds_.data_of(other, kShmPiece), theirs.end - theirs.begin,
                  total);
    }
  }
}

/// Each other rank copies most of the data, and the root copies the rest to each. So all copy about
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

/// Copies a part of a result of `whole` bytes.
void ShmZeroCopy::copy(char* to, const char* from, std::size_t bytes, std::size_t whole) const {
  for (std::size_t at = 0; at < bytes; at += kStretch) {
    rounds_.check_stopped();
    copy_result(to + at, from + at, std::min(kStretch, bytes - at), whole);
  }
}

}  // namespace ddp::internal
