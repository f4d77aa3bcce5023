// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/backends/shm/copy.h"
#include "collectives/call/blocks.h"

namespace ddp::internal {
namespace {

/// Up to this size every rank combines all data itself, in one round, instead of a share in two.
constexpr std::size_t kWhole = std::size_t{8} << 10;

/// The same for the root of a reduce if ranks share CPUs: then rounds of all ranks take longer.
constexpr std::size_t kWholeOfRoot = std::size_t{64} << 10;

/// The part of a long reduction that each rank shows: half of it is the next piece of the data,
/// half the result of the piece before.
constexpr std::size_t kHalf = kShmPiece / 2;

/// The data of a round in which it goes one way: short, so both sides work at the same time.
constexpr std::size_t kOneWayPiece = kShmPiece / 4;

/// The data that a rank shows each other rank in a round, if each gets other data: whole cache
/// lines, or all `bytes`.
std::size_t piece_apart(int size, std::size_t room, std::size_t bytes) {
  return std::min(room / static_cast<std::size_t>(size) / kShmLine * kShmLine, bytes);
}

/// The length of a stream's part in the round at `at`.
std::size_t length_at(std::size_t at, std::size_t bytes, std::size_t piece) {
  return at < bytes ? std::min(piece, bytes - at) : 0;
}

void copy(char* to, const char* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

ShmCollectives::ShmCollectives(const GroupContext& context, ShmArena arena, bool is_whole)
    : context_(context),
      is_whole_(is_whole),
      arena_(std::move(arena)),
      rounds_(arena_.members(), context.rank, context.size, arena_.has_cpu_for_each()),
      heap_(std::make_shared<ShmHeap>(arena_, context.rank)),
      zero_copy_(*heap_, rounds_, context.rank, context.size),
      parts_(static_cast<std::size_t>(context.size)),
      ended_(static_cast<std::size_t>(context.size)) {
  static_assert(kMostRanks * (sizeof(Counts) + kShmLine) <= kShmPiece);
}

void ShmCollectives::on_end(int rank) noexcept {
  ended_[static_cast<std::size_t>(rank)] = true;
  if (!rounds_.has_left(rank)) stop(rank);
}

void ShmCollectives::run(const Task& task, const Call& call) {
  try {
    perform(task, call);
  } catch (const ShmMismatch& found) {
    fail(call, found);
  }
}

void ShmCollectives::perform(const Task& task, const Call& call) {
  if (heap_->is_used() && zero_copy_.suits(task)) {
    const auto places = zero_copy_.find(task);
    const auto exchange = [&] { rounds_.exchange(call, 0); };
    if (are_same_on_all(places, call)) {
      zero_copy_.run(task, places, exchange);
      return task.operation == Operation::reduce ? void() : exchange();
    }
  }
  switch (task.operation) {
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      return reduce_scatter(task, call);
    case Operation::all_reduce:
    case Operation::reduce:
      if (is_reduced_whole(task)) return reduce_whole(task, call);
      return reduce_in_shares(task, call);
    case Operation::broadcast:
      return goes_one_way(task) ? broadcast_little(task, call) : move(task, call);
    case Operation::barrier:
      return rounds_.exchange(call, 0);
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return move(task, call);
    case Operation::allocate:
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;  // see allocate(); messages go through rings
  }
}

/// (Counting the CPUs takes longer than a short call.)
bool ShmCollectives::is_reduced_whole(const Task& task) const {
  const std::size_t bytes = task.count * size_of(task.type);
  if (context_.size == 2 || bytes <= kWhole) return true;
  const bool is_by_root = task.operation == Operation::reduce && bytes <= kWholeOfRoot;
  return is_by_root && !arena_.has_cpu_for_each();
}

std::shared_ptr<void> ShmCollectives::allocate(const Task& task, const Call& call) {
  run({}, call);
  const auto region = heap_->take(task.count);
  return is_true_on_all(region != nullptr, call) ? heap_->use(region) : nullptr;
}

bool ShmCollectives::is_true_on_all(bool mine, const Call& call) {
  rounds_.out(1)[0] = mine ? 1 : 0;
  rounds_.exchange(call, 0);
  for (int other = 0; other < context_.size; ++other) {
    if (other != context_.rank) mine = mine && rounds_.data_of(other, 1)[0] == 1;
  }
  return mine;
}

/// Does a round, as all ranks do once there is a heap, if a call's data is long.
bool ShmCollectives::are_same_on_all(const ShmZeroCopy::Places& places, const Call& call) {
  const auto mine = places.numbers();
  std::memcpy(rounds_.out(sizeof(mine)), mine.data(), sizeof(mine));
  rounds_.exchange(call, 0);
  bool are_same = mine[0] != 0;
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    are_same = are_same &&
               std::memcmp(rounds_.data_of(other, sizeof(mine)), mine.data(), sizeof(mine)) == 0;
  }
  return are_same;
}

/// If the call alone does not say a task's counts: the bytes of the counts for all ranks. They
/// precede the data in each round, and the first round compares them.
std::size_t ShmCollectives::bytes_of_counts(const Task& task) const {
  const std::size_t bytes = static_cast<std::size_t>(context_.size) * sizeof(Counts);
  return is_unequal(task.operation) ? (bytes + kShmLine - 1) / kShmLine * kShmLine : 0;
}

void ShmCollectives::show_counts(const Task& task) {
  counts_ = counts_of(task, context_.rank, context_.size);
  std::memcpy(rounds_.out(kShmPiece), counts_.data(), counts_.size() * sizeof(Counts));
}

void ShmCollectives::compare_counts(const Call& call) {
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + context_.size - step) % context_.size;
    const char* const all = rounds_.data_of(other, kShmPiece);
    Counts theirs;
    std::memcpy(&theirs, all + static_cast<std::size_t>(context_.rank) * sizeof(Counts),
                sizeof(Counts));
    const Counts& ours = counts_[static_cast<std::size_t>(other)];
    check_fits(context_, call, {call, ours}, {call, theirs}, other);
  }
}

/// Whether ranks that only send continue at once: the others find everything in the slot. With
/// several nodes no rank of one may return before the other nodes have compared the call.
bool ShmCollectives::goes_one_way(const Task& task) const {
  if (!is_whole_ || !is_little(task)) return false;
  const std::size_t blocks = task.operation == Operation::scatter ? context_.size : 1;
  return task.count * size_of(task.type) * blocks <= kShmShort;
}

bool ShmCollectives::is_little(const Task& task) {
  return has_root(task.operation) && !is_point_to_point(task.operation) &&
         !is_unequal(task.operation) && task.count * size_of(task.type) <= kShmShort;
}

bool ShmCollectives::is_ready(const Task& task) {
  if (!goes_one_way(task) || !rounds_.can_begin()) return false;
  const bool is_root = context_.rank == task.root;
  if (is_root == is_from_root(task.operation)) return true;
  if (!is_root) return rounds_.is_ahead(task.root, task.count * size_of(task.type));
  for (int other = 0; other < context_.size; ++other) {
    if (other != task.root && !rounds_.is_ahead(other, task.count * size_of(task.type)))
      return false;
  }
  return true;
}

/// Does a round of such a task.
void ShmCollectives::pass(const Task& task, const Call& call) {
  const bool is_root = context_.rank == task.root;
  if (is_from_root(task.operation)) {
    return is_root ? rounds_.send(call, ShmRounds::kToAll) : rounds_.receive(call, task.root);
  }
  is_root ? rounds_.exchange(call, 0) : rounds_.send(call, task.root);
}

void ShmCollectives::broadcast_little(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  const bool sends = context_.rank == task.root;
  if (sends) copy(rounds_.out(bytes), static_cast<const char*>(task.in), bytes);
  pass(task, call);
  if (!sends) copy(static_cast<char*>(task.out), rounds_.data_of(task.root, bytes), bytes);
}

std::uint64_t ShmCollectives::longest_of_all(std::uint64_t mine) const {
  for (int other = 0; other < context_.size; ++other) {
    if (other != context_.rank) mine = std::max(mine, rounds_.longest_of(other));
  }
  return mine;
}

/// Returns the bytes of the longest stream to another rank.
std::uint64_t ShmCollectives::longest_of(const Route& route) const {
  std::uint64_t longest = 0;
  for (int other = 0; other < context_.size; ++other) {
    if (other != context_.rank) longest = std::max<std::uint64_t>(longest, route.to(other).bytes);
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
  // In place: received data must not overwrite data that is yet to be sent.
  const Blocks all(task.send_counts, task.count, context_.size);
  const char* const in = static_cast<const char*>(task.in);
  scratch_.assign(in, in + all.total() * size_of(task.type));
  Task copied = task;
  copied.in = scratch_.data();
  stream(copied, call, true);
}

/// Each rank's data goes through its slot piece by piece: the same for all others or, if `apart`, a
/// part of the slot for each.
void ShmCollectives::stream(const Task& task, const Call& call, bool apart) {
  const Route route(task, context_.rank, context_.size);
  const Pieces pieces = pieces_of(task, apart);
  if (goes_one_way(task)) {
    write(route, 0, pieces);
    pass(task, call);
    read(route, 0, pieces);
    return copy_own(route, context_.rank);
  }
  const std::uint64_t longest = longest_of(route);
  std::size_t at = 0;
  do {
    if (at == 0 && pieces.begin > 0) show_counts(task);
    write(route, at, pieces);
    rounds_.exchange(call, longest);
    if (at == 0 && pieces.begin > 0) compare_counts(call);
    read(route, at, pieces);
    at += pieces.length;
  } while (at < longest_of_all(longest));
  end_results(longest_of_all(longest));
  copy_own(route, context_.rank);
}

ShmCollectives::Pieces ShmCollectives::pieces_of(const Task& task, bool apart) const {
  const std::size_t begin = bytes_of_counts(task);
  const std::size_t room = kShmPiece - begin;
  const std::size_t block = begin > 0 ? room : task.count * size_of(task.type);
  if (apart) return {begin, piece_apart(context_.size, room, block), apart};
  return {begin, task.operation == Operation::broadcast ? kOneWayPiece : room, apart};
}

/// The total bytes that ranks show in a round, if a stream has `bytes`.
std::size_t ShmCollectives::extent(const Pieces& pieces, std::size_t bytes) const {
  if (pieces.begin > 0) return kShmPiece;  // the others' counts are unknown until compared
  return pieces.apart ? pieces.length * static_cast<std::size_t>(context_.size) : bytes;
}

void ShmCollectives::write(const Route& route, std::size_t at, const Pieces& pieces) {
  for (int other = 0; other < context_.size; ++other) {
    const Outgoing out = route.to(other);
    if (other == context_.rank || at >= out.bytes) continue;
    char* const to = rounds_.out(extent(pieces, out.bytes)) + pieces.place_for(other);
    copy(to, out.data + at, length_at(at, out.bytes, pieces.length));
    if (!pieces.apart) return;
  }
}

void ShmCollectives::read(const Route& route, std::size_t at, const Pieces& pieces) const {
  for (int step = 1; step < context_.size; ++step) {
    const int other = (context_.rank + step) % context_.size;
    const Incoming in = route.from(other);
    if (at >= in.bytes) continue;
    const char* const from =
        rounds_.data_of(other, extent(pieces, in.bytes)) + pieces.place_for(context_.rank);
    copy_result(in.data + at, from, length_at(at, in.bytes, pieces.length), in.bytes);
  }
}

/// Combines the parts of all ranks in their order, so that results are the same bits on every rank
/// and in every run. `out` may be this rank's part. `whole` is as for copy_result().
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
  const bool one_way = goes_one_way(task);
  const char* const in = static_cast<const char*>(task.in);
  char* const out = static_cast<char*>(task.out);
  std::size_t at = 0;
  do {
    const std::size_t length = length_at(at, total, piece);
    if (shows) copy(rounds_.out(total), in + at, length);
    one_way ? pass(task, call) : rounds_.exchange(call, 0);
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
    rounds_.exchange(call, 0);
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

/// The first element of a rank's share in a piece of `count` elements.
std::size_t ShmCollectives::share_begin(std::size_t count, int rank) const {
  return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(context_.size);
}

/// Copies what the other ranks show of the results of a piece of `count` elements, which is part of
/// `whole` bytes.
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
  const Pieces pieces = pieces_of(task, true);
  const std::size_t all = extent(pieces, 0);
  const Blocks blocks(task.send_counts, task.count, context_.size);
  const char* const in = static_cast<const char*>(task.in);
  std::size_t longest = 0;
  for (int rank = 0; rank < context_.size; ++rank) {
    longest = std::max(longest, blocks.count(rank) * width);
  }
  std::size_t at = 0;
  do {
    const auto length_of = [&](int rank) {
      return length_at(at, blocks.count(rank) * width, pieces.length);
    };
    if (at == 0 && pieces.begin > 0) show_counts(task);
    for (int rank = 0; rank < context_.size; ++rank) {
      if (rank == context_.rank) continue;
      copy(rounds_.out(all) + pieces.place_for(rank), in + blocks.begin(rank) * width + at,
           length_of(rank));
    }
    rounds_.exchange(call, longest);
    if (at == 0 && pieces.begin > 0) compare_counts(call);
    longest = longest_of_all(longest);
    const auto part_of = [&](int rank) {
      return rank == context_.rank ? in + blocks.begin(rank) * width + at
                                   : rounds_.data_of(rank, all) + pieces.place_for(context_.rank);
    };
    combine(task, part_of, static_cast<char*>(task.out) + at, length_of(context_.rank) / width,
            blocks.count(context_.rank) * width);
    at += pieces.length;
  } while (at < longest);
  end_results(longest);
}

}  // namespace ddp::internal
