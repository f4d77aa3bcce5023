// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "collectives/backends/agreed_error.h"
#include "collectives/call/blocks.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

/// Up to here every rank combines all data itself, in one round, instead of a share of it in two.
constexpr std::size_t kWhole = std::size_t{8} << 10;

/// What each rank shows of a long reduction: half of it is the next piece of the data, half the
/// result of the piece before.
constexpr std::size_t kHalf = kShmPiece / 2;

/// What a rank shows each other rank in a round, if that is other data for each. Whole cache lines.
std::size_t piece_apart(int size) {
  return kShmPiece / static_cast<std::size_t>(size) / 64 * 64;
}

/// The part of a stream that goes in the round at `at`.
std::size_t length_at(std::size_t at, std::size_t bytes, std::size_t piece) {
  return at < bytes ? std::min(piece, bytes - at) : 0;
}

void copy(char* to, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// Whether there is a CPU for every rank, of those that any of them may use.
bool has_cpu_for_each(const ShmArena& arena) {
  int cpus = 0;
  for (std::size_t word = 0; word < kShmCpuWords; ++word) {
    std::uint64_t any = 0;
    for (int rank = 0; rank < arena.ranks(); ++rank) any |= arena.members()[rank].cpus[word];
    cpus += std::popcount(any);
  }
  return cpus >= arena.ranks();
}

}  // namespace

ShmCollectives::ShmCollectives(GroupContext& context, ShmArena arena)
    : context_(context),
      arena_(std::move(arena)),
      rounds_(arena_.members(), context.rank, context.size, has_cpu_for_each(arena_)),
      counts_(static_cast<std::size_t>(context.size)) {
  static_assert(kMostRanks * sizeof(Counts) <= kShmPiece);
}

void ShmCollectives::watch(std::vector<HangupWatch::Connection> connections) {
  watch_.emplace(std::move(connections), [this](int rank) { stop(rank); });
}

void ShmCollectives::run(const Task& task, const Call& call) {
  switch (task.operation) {
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      return reduce_scatter(task, call);
    case Operation::all_reduce:
    case Operation::reduce:
      if (task.count * size_of(task.type) <= kWhole) return reduce_whole(task, call);
      return reduce_in_shares(task, call);
    default:
      move(task, call);
  }
}

/// A round, in which all ranks have to be at the same call. One that is at another is not waited
/// for: it may be why others never come.
void ShmCollectives::exchange(const Call& call, std::uint64_t longest) {
  rounds_.exchange(call, longest, [&](int other) {
    if (rounds_.call_of(other) != call) check({call}, {rounds_.call_of(other)}, other);
  });
}

/// Compares counts_ between ranks, where the call alone does not say that they fit.
void ShmCollectives::compare_counts(const Call& call) {
  std::memcpy(rounds_.out(), counts_.data(), counts_.size() * sizeof(Counts));
  exchange(call, 0);
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + context_.size - step) % context_.size;
    Counts theirs;
    std::memcpy(&theirs,
                rounds_.data_of(other) + static_cast<std::size_t>(context_.rank) * sizeof(Counts),
                sizeof(Counts));
    const Counts& ours = counts_[static_cast<std::size_t>(other)];
    check({call, ours.sends, ours.expects}, {call, theirs.sends, theirs.expects}, other);
  }
}

void ShmCollectives::check(const Announced& ours, const Announced& theirs, int other) {
  const auto text = difference(ours, theirs, name_ranks({context_.named(other)}));
  if (text) throw agree_on(context_, "in " + describe(ours.call), ErrorKind::mismatch, *text);
}

std::uint64_t ShmCollectives::longest_of_all(std::uint64_t mine) const {
  for (int other = 0; other < context_.size; ++other) {
    if (other != context_.rank) mine = std::max(mine, rounds_.longest_of(other));
  }
  return mine;
}

/// What this rank sends each other and expects of it. Returns the bytes of the longest stream.
std::uint64_t ShmCollectives::count_streams(const Route& route) {
  std::uint64_t longest = 0;
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    const std::size_t bytes = route.to(other).bytes;
    longest = std::max<std::uint64_t>(longest, bytes);
    counts_[static_cast<std::size_t>(other)] = {bytes / route.width(),
                                                route.from(other).bytes / route.width()};
  }
  return longest;
}

/// Each rank's data goes through its slot piece by piece: the same for all others, or, `apart`, a
/// part of the slot for each of them.
void ShmCollectives::move(const Task& task, const Call& call) {
  Task copied = task;
  const Route route(copied, context_.rank, context_.size);
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  const bool apart =
      swaps || task.operation == Operation::scatter || task.operation == Operation::scatter_v;
  const std::size_t piece = apart ? piece_apart(context_.size) : kShmPiece;
  const std::uint64_t longest = count_streams(route);
  if (is_unequal(task.operation)) compare_counts(call);
  if (swaps && task.in == task.out) {
    // In place: received data must not overwrite what is yet to be sent.
    const Blocks all(task.send_counts, task.count, context_.size);
    const char* const in = static_cast<const char*>(task.in);
    scratch_.assign(in, in + all.total() * route.width());
    copied.in = scratch_.data();
  }
  std::size_t at = 0;
  do {
    write(route, at, piece, apart);
    exchange(call, longest);
    read(route, at, piece, apart);
    at += piece;
  } while (at < longest_of_all(longest));
  const Outgoing own = route.to(context_.rank);
  const Incoming own_out = route.from(context_.rank);
  if (own_out.bytes > 0 && own_out.data != own.data) {
    std::memmove(own_out.data, own.data, own.bytes);
  }
}

void ShmCollectives::write(const Route& route, std::size_t at, std::size_t piece,
                           bool apart) const {
  for (int other = 0; other < context_.size; ++other) {
    const Outgoing out = route.to(other);
    if (other == context_.rank || at >= out.bytes) continue;
    char* const to = rounds_.out() + (apart ? static_cast<std::size_t>(other) * piece : 0);
    copy(to, out.data + at, length_at(at, out.bytes, piece));
    if (!apart) return;
  }
}

void ShmCollectives::read(const Route& route, std::size_t at, std::size_t piece, bool apart) const {
  const std::size_t place = apart ? static_cast<std::size_t>(context_.rank) * piece : 0;
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + step) % context_.size;
    const Incoming in = route.from(other);
    if (at >= in.bytes) continue;
    copy(in.data + at, rounds_.data_of(other) + place, length_at(at, in.bytes, piece));
  }
}

/// Combines the parts of all ranks in their order, so that results are the same on every rank and
/// in every run, to the bit. `out` may be this rank's part.
template <class PartOf>
void ShmCollectives::combine(const Task& task, const PartOf& part_of, char* out,
                             std::size_t count) {
  const Reduction by = reduction(task.type, task.reduce);
  const std::size_t width = size_of(task.type);
  const std::size_t stretch = sums_.size() / by.sum_width;
  for (std::size_t at = 0; at < count; at += stretch) {
    const std::size_t length = std::min(stretch, count - at);
    by.load(sums_.data(), part_of(0) + at * width, length);
    for (int rank = 1; rank < context_.size; ++rank) {
      by.add(sums_.data(), part_of(rank) + at * width, length);
    }
    by.store(out + at * width, sums_.data(), length, context_.size);
  }
}

void ShmCollectives::reduce_whole(const Task& task, const Call& call) {
  const char* const in = static_cast<const char*>(task.in);
  copy(rounds_.out(), in, task.count * size_of(task.type));
  exchange(call, 0);
  if (task.operation == Operation::reduce && context_.rank != task.root) return;
  const auto part_of = [&](int rank) { return rank == context_.rank ? in : rounds_.data_of(rank); };
  combine(task, part_of, static_cast<char*>(task.out), task.count);
}

/// Each rank combines a share of every piece. A round shows the next piece, and the results of the
/// piece before.
void ShmCollectives::reduce_in_shares(const Task& task, const Call& call) {
  const std::size_t width = size_of(task.type);
  const std::size_t total = task.count * width;
  const bool wants = task.operation == Operation::all_reduce || context_.rank == task.root;
  const char* const in = static_cast<const char*>(task.in);
  char* const out = static_cast<char*>(task.out);
  std::size_t before = 0;  // bytes of the piece that was combined last
  for (std::size_t at = 0; at < total || before > 0; at += kHalf) {
    const std::size_t length = length_at(at, total, kHalf);
    const std::size_t begin = share_begin(length / width, context_.rank) * width;
    const std::size_t end = share_begin(length / width, context_.rank + 1) * width;
    const char* const next = in + std::min(at, total);
    copy(rounds_.out(), next, begin);
    copy(rounds_.out() + end, next + end, length - end);
    exchange(call, 0);
    if (wants && before > 0) collect_shares(out + at - kHalf, before / width, width);
    const auto part_of = [&](int rank) {
      return (rank == context_.rank ? next : rounds_.data_of(rank)) + begin;
    };
    char* const result = rounds_.out() + kHalf + begin;
    combine(task, part_of, result, (end - begin) / width);
    if (wants && end > begin) copy(out + at + begin, result, end - begin);
    before = length;
  }
}

/// In elements, of a piece of `count`.
std::size_t ShmCollectives::share_begin(std::size_t count, int rank) const {
  return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(context_.size);
}

/// Copies what the other ranks show of the results of a piece of `count` elements.
void ShmCollectives::collect_shares(char* out, std::size_t count, std::size_t width) const {
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + step) % context_.size;
    const std::size_t begin = share_begin(count, other) * width;
    const std::size_t end = share_begin(count, other + 1) * width;
    copy(out + begin, rounds_.data_of(other) + kHalf + begin, end - begin);
  }
}

void ShmCollectives::reduce_scatter(const Task& task, const Call& call) {
  const std::size_t width = size_of(task.type);
  const std::size_t piece = piece_apart(context_.size);
  const Blocks blocks(task.send_counts, task.count, context_.size);
  const char* const in = static_cast<const char*>(task.in);
  const auto place_of = [&](int rank) { return static_cast<std::size_t>(rank) * piece; };
  std::size_t longest = 0;
  for (int rank = 0; rank < context_.size; ++rank) {
    longest = std::max(longest, blocks.count(rank) * width);
    counts_[static_cast<std::size_t>(rank)] = {blocks.count(rank), blocks.count(context_.rank)};
  }
  if (is_unequal(task.operation)) compare_counts(call);
  std::size_t at = 0;
  do {
    const auto length_of = [&](int rank) {
      return length_at(at, blocks.count(rank) * width, piece);
    };
    for (int rank = 0; rank < context_.size; ++rank) {
      if (rank == context_.rank) continue;
      copy(rounds_.out() + place_of(rank), in + blocks.begin(rank) * width + at, length_of(rank));
    }
    exchange(call, longest);
    longest = longest_of_all(longest);
    const auto part_of = [&](int rank) {
      return rank == context_.rank ? in + blocks.begin(rank) * width + at
                                   : rounds_.data_of(rank) + place_of(context_.rank);
    };
    combine(task, part_of, static_cast<char*>(task.out) + at, length_of(context_.rank) / width);
    at += piece;
  } while (at < longest);
}

}  // namespace ddp::internal
