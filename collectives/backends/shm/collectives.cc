// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/shm/copy.h"
#include "collectives/call/blocks.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

/// Up to here every rank combines all data itself, in one round, instead of a share of it in two.
constexpr std::size_t kWhole = std::size_t{8} << 10;

/// The part of a long reduction that each rank shows: half of it is the next piece of the data,
/// half the result of the piece before.
constexpr std::size_t kHalf = kShmPiece / 2;

/// The data of a round in which it goes one way: so short that both sides work at the same time.
constexpr std::size_t kOneWayPiece = kShmPiece / 4;

/// The data that a rank shows each other rank in a round, if that is other data for each: whole
/// cache lines, or all `bytes` of it.
std::size_t piece_apart(int size, std::size_t bytes) {
  return std::min(kShmPiece / static_cast<std::size_t>(size) / 64 * 64, bytes);
}

/// The part of a stream that goes in the round at `at`.
std::size_t length_at(std::size_t at, std::size_t bytes, std::size_t piece) {
  return at < bytes ? std::min(piece, bytes - at) : 0;
}

void copy(char* to, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

/// By rank; -1: none.
std::vector<int> numa_nodes(const ShmArena& arena) {
  std::vector<int> nodes;
  for (int rank = 0; rank < arena.ranks(); ++rank) {
    nodes.push_back(arena.members()[rank].numa_node - 1);
  }
  return nodes;
}

}  // namespace

ShmCollectives::ShmCollectives(const GroupContext& context, ShmArena arena)
    : context_(context),
      arena_(std::move(arena)),
      rounds_(arena_.members(), context.rank, context.size, arena_.has_cpu_for_each()),
      heap_(std::make_shared<ShmHeap>(arena_, context.rank)),
      zero_copy_(*heap_, rounds_, context.rank, context.size),
      numa_reduce_({numa_nodes(arena_), context.rank}, rounds_, context.size),
      counts_(static_cast<std::size_t>(context.size)),
      parts_(static_cast<std::size_t>(context.size)) {
  static_assert(kMostRanks * sizeof(Counts) <= kShmPiece);
}

void ShmCollectives::watch(std::vector<HangupWatch::Connection> connections) {
  watch_.emplace(std::move(connections), [this](int rank) { stop(rank); });
}

void ShmCollectives::run(const Task& task, const Call& call) {
  if (heap_->is_used() && zero_copy_.suits(task)) {
    const auto places = zero_copy_.find(task);
    if (are_same_on_all(places, call)) {
      run_in_place(task, call, places);
      return exchange(call, 0);
    }
  }
  switch (task.operation) {
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      return reduce_scatter(task, call);
    case Operation::all_reduce:
    case Operation::reduce:
      if (context_.size == 2 || task.count * size_of(task.type) <= kWhole)
        return reduce_whole(task, call);
      return reduce_in_shares(task, call);
    case Operation::barrier:
    case Operation::leave:
      return exchange(call, 0);
    default:
      move(task, call);
  }
}

void ShmCollectives::run_in_place(const Task& task, const Call& call,
                                  const ShmZeroCopy::Places& places) {
  if (!numa_reduce_.suits(task)) return zero_copy_.run(task, places);
  numa_reduce_.run(task, places.in, places.out, [&] { exchange(call, 0); });
}

std::shared_ptr<void> ShmCollectives::allocate(const Task& task, const Call& call) {
  exchange(call, 0);
  const auto region = heap_->take(task.count);
  return is_true_on_all(region != nullptr, call) ? heap_->use(region) : nullptr;
}

bool ShmCollectives::is_true_on_all(bool mine, const Call& call) {
  rounds_.out(1)[0] = mine ? 1 : 0;
  exchange(call, 0);
  for (int other = 0; other < context_.size; ++other) {
    if (other != context_.rank) mine = mine && rounds_.data_of(other, 1)[0] == 1;
  }
  return mine;
}

/// A round, which calls have once there is a heap, and if their data is long: alike on all ranks.
bool ShmCollectives::are_same_on_all(const ShmZeroCopy::Places& places, const Call& call) {
  const auto mine = places.numbers();
  std::memcpy(rounds_.out(sizeof(mine)), mine.data(), sizeof(mine));
  exchange(call, 0);
  bool are_same = mine[0] != 0;
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    are_same = are_same &&
               std::memcmp(rounds_.data_of(other, sizeof(mine)), mine.data(), sizeof(mine)) == 0;
  }
  return are_same;
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
  const std::size_t bytes = counts_.size() * sizeof(Counts);
  std::memcpy(rounds_.out(bytes), counts_.data(), bytes);
  exchange(call, 0);
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + context_.size - step) % context_.size;
    Counts theirs;
    std::memcpy(
        &theirs,
        rounds_.data_of(other, bytes) + static_cast<std::size_t>(context_.rank) * sizeof(Counts),
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

/// Lists the data that this rank sends each other and expects of it. Returns the bytes of the
/// longest stream.
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

void ShmCollectives::move(const Task& task, const Call& call) {
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  if (!swaps || task.in != task.out) {
    const bool scatters =
        task.operation == Operation::scatter || task.operation == Operation::scatter_v;
    return stream(task, call, swaps || scatters);
  }
  // In place: received data must not overwrite what is yet to be sent.
  const Blocks all(task.send_counts, task.count, context_.size);
  const char* const in = static_cast<const char*>(task.in);
  scratch_.assign(in, in + all.total() * size_of(task.type));
  Task copied = task;
  copied.in = scratch_.data();
  stream(copied, call, true);
}

/// Each rank's data goes through its slot piece by piece: the same for all others, or, `apart`, a
/// part of the slot for each of them.
void ShmCollectives::stream(const Task& task, const Call& call, bool apart) {
  const Route route(task, context_.rank, context_.size);
  const std::size_t block =
      is_unequal(task.operation) ? kShmPiece : task.count * size_of(task.type);
  const std::size_t piece =
      apart ? piece_apart(context_.size, block)
            : (task.operation == Operation::broadcast ? kOneWayPiece : kShmPiece);
  const std::uint64_t longest = count_streams(route);
  if (is_unequal(task.operation)) compare_counts(call);
  std::size_t at = 0;
  do {
    write(route, at, piece, apart);
    exchange(call, longest);
    read(route, at, piece, apart);
    at += piece;
  } while (at < longest_of_all(longest));
  end_results(longest_of_all(longest));
  copy_own(route, context_.rank);
}

void ShmCollectives::write(const Route& route, std::size_t at, std::size_t piece,
                           bool apart) const {
  const std::size_t extent = piece * static_cast<std::size_t>(context_.size);
  for (int other = 0; other < context_.size; ++other) {
    const Outgoing out = route.to(other);
    if (other == context_.rank || at >= out.bytes) continue;
    char* const to = apart ? rounds_.out(extent) + static_cast<std::size_t>(other) * piece
                           : rounds_.out(out.bytes);
    copy(to, out.data + at, length_at(at, out.bytes, piece));
    if (!apart) return;
  }
}

void ShmCollectives::read(const Route& route, std::size_t at, std::size_t piece, bool apart) const {
  const std::size_t extent = piece * static_cast<std::size_t>(context_.size);
  const std::size_t place = static_cast<std::size_t>(context_.rank) * piece;
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + step) % context_.size;
    const Incoming in = route.from(other);
    if (at >= in.bytes) continue;
    const char* const from =
        apart ? rounds_.data_of(other, extent) + place : rounds_.data_of(other, in.bytes);
    copy_result(in.data + at, from, length_at(at, in.bytes, piece), in.bytes);
  }
}

/// Combines the parts of all ranks in their order, so that results are the same on every rank and
/// in every run, to the bit. `out` may be this rank's part; the `whole` that it is in is as for
/// copy_result().
template <class PartOf>
void ShmCollectives::combine(const Task& task, const PartOf& part_of, char* out, std::size_t count,
                             std::size_t whole) {
  const Reduction by = reduction(task.type, task.reduce);
  const std::size_t width = size_of(task.type);
  const std::size_t stretch = is_past_caches(whole) ? results_.size() / width : count;
  for (std::size_t at = 0; at < count; at += stretch) {
    const std::size_t length = std::min(stretch, count - at);
    for (int rank = 0; rank < context_.size; ++rank) {
      parts_[static_cast<std::size_t>(rank)] = part_of(rank) + at * width;
    }
    char* const to = is_past_caches(whole) ? results_.data() : out + at * width;
    by.combine(to, parts_.data(), context_.size, length);
    if (to == results_.data()) copy_result(out + at * width, to, length * width, whole);
  }
}

/// Each rank combines all data, in pieces.
void ShmCollectives::reduce_whole(const Task& task, const Call& call) {
  const std::size_t width = size_of(task.type);
  const std::size_t total = task.count * width;
  const bool wants = task.operation == Operation::all_reduce || context_.rank == task.root;
  const bool shows = task.operation == Operation::all_reduce || !wants;
  const std::size_t piece = task.operation == Operation::reduce ? kOneWayPiece : kShmPiece;
  const char* const in = static_cast<const char*>(task.in);
  char* const out = static_cast<char*>(task.out);
  std::size_t at = 0;
  do {
    const std::size_t length = length_at(at, total, piece);
    if (shows) copy(rounds_.out(total), in + at, length);
    exchange(call, 0);
    const auto part_of = [&](int rank) {
      return rank == context_.rank ? in + at : rounds_.data_of(rank, total);
    };
    if (wants) combine(task, part_of, out + at, length / width, total);
    at += length;
  } while (at < total);
  end_results(total);
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
    char* const shown = rounds_.out(kShmPiece);
    copy(shown, next, begin);
    copy(shown + end, next + end, length - end);
    exchange(call, 0);
    if (wants && before > 0) collect_shares(out + at - kHalf, before / width, width, total);
    const auto part_of = [&](int rank) {
      return (rank == context_.rank ? next : rounds_.data_of(rank, kShmPiece)) + begin;
    };
    char* const result = rounds_.out(kShmPiece) + kHalf + begin;
    combine(task, part_of, result, (end - begin) / width, 0);
    if (wants && end > begin) copy_result(out + at + begin, result, end - begin, total);
    before = length;
  }
  end_results(total);
}

/// In elements, of a piece of `count`.
std::size_t ShmCollectives::share_begin(std::size_t count, int rank) const {
  return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(context_.size);
}

/// Copies what the other ranks show of the results of a piece of `count` elements, one of `whole`
/// bytes.
void ShmCollectives::collect_shares(char* out, std::size_t count, std::size_t width,
                                    std::size_t whole) const {
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + step) % context_.size;
    const std::size_t begin = share_begin(count, other) * width;
    const std::size_t end = share_begin(count, other + 1) * width;
    copy_result(out + begin, rounds_.data_of(other, kShmPiece) + kHalf + begin, end - begin, whole);
  }
}

void ShmCollectives::reduce_scatter(const Task& task, const Call& call) {
  const std::size_t width = size_of(task.type);
  const std::size_t piece =
      piece_apart(context_.size, is_unequal(task.operation) ? kShmPiece : task.count * width);
  const std::size_t extent = piece * static_cast<std::size_t>(context_.size);
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
      copy(rounds_.out(extent) + place_of(rank), in + blocks.begin(rank) * width + at,
           length_of(rank));
    }
    exchange(call, longest);
    longest = longest_of_all(longest);
    const auto part_of = [&](int rank) {
      return rank == context_.rank ? in + blocks.begin(rank) * width + at
                                   : rounds_.data_of(rank, extent) + place_of(context_.rank);
    };
    combine(task, part_of, static_cast<char*>(task.out) + at, length_of(context_.rank) / width,
            blocks.count(context_.rank) * width);
    at += piece;
  } while (at < longest);
  end_results(longest);
}

}  // namespace ddp::internal
