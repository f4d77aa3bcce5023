// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/node_block_collectives.h"

#include <algorithm>
#include <cstring>

namespace ddp::internal {
namespace {

bool is_little(std::size_t bytes) {
  return CpuCallExchange::takes(bytes);
}

/// The number of elements that two ranges have in common, each the block at an index.
std::size_t overlap(const Blocks& a, int of_a, const Blocks& b, int of_b) {
  const std::size_t begin = std::max(a.begin(of_a), b.begin(of_b));
  const std::size_t end = std::min(a.begin(of_a + 1), b.begin(of_b + 1));
  return begin < end ? end - begin : 0;
}

}  // namespace

void NodeBlockCollectives::all_gather(const Task& task, const Call& call) {
  const Blocks blocks(task.recv_counts, task.count, context_.size);
  const std::size_t width = size_of(task.type);
  if (goes_by_leaders(task, task.count * width)) {
    collect_by_leaders(task.in, task.count * width, true, call);
    return take_blocks(task.out, task.count * width);
  }
  if (!is_little(blocks.total() * width)) return all_gather_in_shares(task, blocks, call);
  go_apart(task, call);
}

void NodeBlockCollectives::gather(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  if (!goes_by_leaders(task, bytes)) return go_apart(task, call);
  const bool gets = own_.nodes().node_of(task.root) == own_.node();
  collect_by_leaders(task.in, bytes, gets, call);
  if (context_.rank == task.root) take_blocks(task.out, bytes);
}

/// If all data is little, sends it to all ranks, and each takes its blocks.
void NodeBlockCollectives::all_to_all(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  const auto size = static_cast<std::size_t>(context_.size);
  if (size * size * bytes > kLittleForAll) return go_apart(task, call);
  collect_by_leaders(task.in, size * bytes, true, call);
  const std::size_t own = static_cast<std::size_t>(context_.rank) * bytes;
  char* to = static_cast<char*>(task.out);
  for (int rank = 0; rank < context_.size && bytes > 0; ++rank, to += bytes) {
    std::memcpy(to, collected_of(rank, size * bytes) + own, bytes);
  }
}

void NodeBlockCollectives::reduce_scatter(const Task& task, const Call& call) {
  const Blocks blocks(task.send_counts, task.count, context_.size);
  const PartialSums by(task.type, task.reduce);
  if (goes_by_leaders(task, task.count * by.whole.sum_width)) {
    return reduce_scatter_by_leaders(task, blocks, by, call);
  }
  if (!is_little(blocks.total() * by.whole.sum_width)) {
    return reduce_scatter_in_shares(task, blocks, by, call);
  }
  go_apart(task, call);
}

/// Whether the data from one node to another is little, also on the largest node; each rank has
/// `bytes`. The result is the same on all ranks, as the call says how long blocks are. Unequal
/// blocks are only in the ranks' counts.
bool NodeBlockCollectives::goes_by_leaders(const Task& task, std::size_t bytes) const {
  const auto largest = static_cast<std::size_t>(own_.nodes().largest());
  return !is_unequal(task.operation) && is_little(largest * bytes);
}

/// Moves data between all ranks, as if none shared memory.
void NodeBlockCollectives::go_apart(const Task& task, const Call& call) {
  own_.run({}, call);
  whole_.run(task, call);
}

/// Compares the call between nodes, after a step within the node that compares it there.
void NodeBlockCollectives::agree(const Task& task, const Call& call) {
  if (is_unequal(task.operation)) return whole_.agree_on_counts(task, call);
  own_.agree(call);
  own_.run({}, call);  // before that, counterparts may be in another call
}

/// Collects `bytes` of each rank. The ranks of this node get all of it if `gets`.
void NodeBlockCollectives::collect_by_leaders(const void* in, std::size_t bytes, bool gets,
                                              const Call& call) {
  const std::size_t of_node = static_cast<std::size_t>(own_.nodes().largest()) * bytes;
  packed_.resize(static_cast<std::size_t>(own_.nodes().count()) * of_node);
  const Task inside{.operation = Operation::gather,
                    .type = DataType::uint8,
                    .count = bytes,
                    .in = in,
                    .out = packed_.data() + static_cast<std::size_t>(own_.node()) * of_node};
  own_.run(inside, call);
  if (own_.leads()) {
    whole_.all_gather_little(*own_.counterparts(), call, packed_.data(), of_node);
  }
  const Task all{.operation = Operation::broadcast,
                 .type = DataType::uint8,
                 .count = packed_.size(),
                 .in = packed_.data(),
                 .out = packed_.data()};
  own_.run(gets ? all : Task{}, call);
}

const char* NodeBlockCollectives::collected_of(int rank, std::size_t bytes) const {
  const int place =
      own_.nodes().node_of(rank) * own_.nodes().largest() + own_.nodes().place_of(rank);
  return packed_.data() + static_cast<std::size_t>(place) * bytes;
}

void NodeBlockCollectives::take_blocks(void* out, std::size_t bytes) const {
  char* to = static_cast<char*>(out);
  for (int rank = 0; rank < context_.size && bytes > 0; ++rank, to += bytes) {
    std::memcpy(to, collected_of(rank, bytes), bytes);
  }
}

void NodeBlockCollectives::all_gather_in_shares(const Task& task, const Blocks& blocks,
                                                const Call& call) {
  const std::size_t width = size_of(task.type);
  char* const out = static_cast<char*>(task.out);
  const NodeBlocks ours = blocks_of(blocks, own_.node());
  if (is_unequal(task.operation)) {
    own_.run({}, call);
    agree(task, call);
  }
  char* const own = ours.room_for(out, width, ours_);
  Task inside = task;
  inside.out = own;
  if (is_unequal(task.operation)) inside.recv_counts = ours.counts();
  own_.run(inside, call);
  if (!is_unequal(task.operation)) agree(task, call);
  for (int step = 1; step < own_.nodes().count(); ++step) {
    fetch_blocks(task, ours, own, step, blocks_of(blocks, own_.node_before(step)), call);
  }
  ours.unpack(out, width, ours_);
}

/// Gets the blocks of the node `step` steps before, and sends ours to the one after.
void NodeBlockCollectives::fetch_blocks(const Task& task, const NodeBlocks& ours, const char* own,
                                        int step, const NodeBlocks& theirs, const Call& call) {
  const std::size_t width = size_of(task.type);
  const int place = own_.place();
  char* const out = static_cast<char*>(task.out);
  char* const data = theirs.room_for(out, width, packed_);
  const auto counts = own_.shares_by_place(theirs.count());
  const Blocks shares(counts, 0, static_cast<int>(counts.size()));
  char* const mine = data + shares.begin(place) * width;
  if (const auto& part = own_.counterparts()) {
    const Blocks sent = own_.shares(ours.count());
    whole_.pairwise().swap_in_pieces(part->at(own_.node_after(step)),
                                     {own + sent.begin(place) * width, sent.count(place) * width},
                                     part->at(own_.node_before(step)),
                                     {mine, shares.count(place) * width});
  }
  const Task together{.operation = Operation::all_gather_v,
                      .type = task.type,
                      .count = shares.count(place),
                      .in = mine,
                      .out = data,
                      .recv_counts = counts};
  own_.run(together, call);
  theirs.unpack(out, width, packed_);
}

void NodeBlockCollectives::reduce_scatter_by_leaders(const Task& task, const Blocks& blocks,
                                                     const PartialSums& by, const Call& call) {
  const std::size_t width = size_of(task.type);
  packed_.clear();
  std::vector<Share> shares;
  for (int node = 0; node < own_.nodes().count(); ++node) {
    const NodeBlocks theirs = blocks_of(blocks, node);
    const char* const data = theirs.pack(static_cast<const char*>(task.in), width, part_);
    shares.push_back({packed_.size() / width, theirs.count()});
    packed_.insert(packed_.end(), data, data + theirs.count() * width);
  }
  sums_.resize(blocks.total() * by.whole.sum_width);
  const Task inside{.operation = Operation::reduce,
                    .type = by.type,
                    .reduce = by.op,
                    .count = blocks.total(),
                    .in = by.load(packed_.data(), blocks.total(), loaded_),
                    .out = sums_.data()};
  own_.run(inside, call);
  const std::size_t count = shares[static_cast<std::size_t>(own_.node())].count;
  packed_.resize(count * width);
  if (own_.leads()) {
    Task between = inside;
    between.in = sums_.data();
    theirs_.resize(count * by.whole.sum_width);
    between.out = theirs_.data();
    whole_.reduce_scatter_little(*own_.counterparts(), call, between, shares);
    by.whole.store(packed_.data(), theirs_.data(), count, context_.size);
  }
  const Task result{.operation = Operation::scatter,
                    .type = task.type,
                    .count = task.count,
                    .in = packed_.data(),
                    .out = task.out};
  own_.run(result, call);
}

void NodeBlockCollectives::reduce_scatter_in_shares(const Task& task, const Blocks& blocks,
                                                    const PartialSums& by, const Call& call) {
  const NodeBlocks ours = blocks_of(blocks, own_.node());
  if (is_unequal(task.operation)) {
    own_.run({}, call);
    agree(task, call);
  }
  combine_in_node(task, ours, by, sums_, call);
  if (!is_unequal(task.operation)) agree(task, call);
  theirs_.resize(sums_.size());
  for (int step = 1; step < own_.nodes().count(); ++step) {
    combine_in_node(task, blocks_of(blocks, own_.node_after(step)), by, part_, call);
    const auto& part = own_.counterparts();
    if (!part) continue;
    whole_.pairwise().swap_in_pieces(part->at(own_.node_after(step)), {part_.data(), part_.size()},
                                     part->at(own_.node_before(step)),
                                     {theirs_.data(), theirs_.size()});
    by.between.add(sums_.data(), theirs_.data(), sums_.size() / by.whole.sum_width);
  }
  store_blocks(task, ours, by, call);
}

/// Combines this rank's share of a node's blocks over the ranks of its own node.
void NodeBlockCollectives::combine_in_node(const Task& task, const NodeBlocks& theirs,
                                           const PartialSums& by, std::vector<char>& sums,
                                           const Call& call) {
  const auto counts = own_.shares_by_place(theirs.count());
  const std::size_t mine = counts[static_cast<std::size_t>(own_.place())];
  const char* const packed =
      theirs.pack(static_cast<const char*>(task.in), size_of(task.type), packed_);
  sums.resize(mine * by.whole.sum_width);
  const Task inside{.operation = Operation::reduce_scatter_v,
                    .type = by.type,
                    .reduce = by.op,
                    .count = mine,
                    .in = by.load(packed, theirs.count(), loaded_),
                    .out = sums.data(),
                    .send_counts = counts};
  own_.run(inside, call);
}

/// Sends each share to the ranks whose blocks it belongs to. If all ranks of a node have equal
/// blocks and shares, each keeps its own.
void NodeBlockCollectives::store_blocks(const Task& task, const NodeBlocks& ours,
                                        const PartialSums& by, const Call& call) {
  const int size = static_cast<int>(ours.counts().size());
  const std::size_t count = sums_.size() / by.whole.sum_width;
  if (!is_unequal(task.operation) && size == own_.nodes().smallest()) {
    return by.whole.store(task.out, sums_.data(), count, context_.size);
  }
  packed_.resize(count * size_of(task.type));
  by.whole.store(packed_.data(), sums_.data(), count, context_.size);
  const Blocks shares(own_.shares_by_place(ours.count()), 0, size);
  const Blocks blocks(ours.counts(), 0, size);
  Task swap{.operation = Operation::all_to_all_v,
            .type = task.type,
            .in = packed_.data(),
            .out = task.out};
  for (int other = 0; other < size; ++other) {
    swap.send_counts.push_back(overlap(shares, own_.place(), blocks, other));
    swap.recv_counts.push_back(overlap(shares, other, blocks, own_.place()));
  }
  own_.run(swap, call);
}

}  // namespace ddp::internal
