// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/node_collectives.h"

#include <cstring>
#include <utility>

#include "collectives/call/reduction.h"
#include "collectives/call/route.h"

namespace ddp::internal {
namespace {

/// What a task comes to on a node of one rank.
void do_alone(const Task& task) {
  if (!reduces(task.operation)) return copy_own(Route(task, 0, 1), 0);
  if (task.count > 0) std::memmove(task.out, task.in, task.count * size_of(task.type));
}

}  // namespace

NodeCollectives::NodeCollectives(GroupContext& context, CpuCollectives& whole, SharedMemory shared)
    : context_(context),
      whole_(whole),
      nodes_(std::move(shared.nodes)),
      memory_(std::move(shared.collectives)),
      node_(nodes_.node_of(context.rank)),
      place_(nodes_.place_of(context.rank)) {
  if (place_ < nodes_.smallest()) {
    counterparts_.emplace(nodes_.counterparts(place_), context.rank);
  }
}

void NodeCollectives::run(const Task& task, const Call& call) {
  if (are_on_one_node()) return memory_->run(task, call);
  if (nodes_.count() == context_.size) return whole_.run(task, call);
  switch (task.operation) {
    case Operation::all_reduce:
      return all_reduce(task, call);
    case Operation::broadcast:
      return broadcast(task, call);
    case Operation::barrier:
    case Operation::leave:
      return barrier(call);
    default:
      in_node({}, call);
      whole_.run(task, call);
  }
}

std::shared_ptr<void> NodeCollectives::allocate(const Task& task, const Call& call) {
  if (are_on_one_node()) return memory_->allocate(task, call);
  run(task, call);
  return nullptr;
}

std::optional<ShmRings> NodeCollectives::rings() const {
  if (!memory_) return std::nullopt;
  return ShmRings(memory_->arena(), nodes_.ranks(node_), context_.rank);
}

int NodeCollectives::rank_at(int place) const {
  return nodes_.ranks(node_)[static_cast<std::size_t>(place)];
}

void NodeCollectives::stop() noexcept {
  if (memory_) memory_->stop(place_);
}

/// Ranks, roots and counts of the task are those of the node. A task without anything is a barrier.
void NodeCollectives::in_node(const Task& task, const Call& call) {
  memory_ ? memory_->run(task, call) : do_alone(task);
}

/// Compares the call between nodes; only first ranks do.
void NodeCollectives::agree(const Call& call) {
  if (leads()) whole_.agree(*counterparts_, call);
}

void NodeCollectives::barrier(const Call& call) {
  in_node({}, call);
  agree(call);
  in_node({}, call);
}

/// Within the root's node first, then from its first rank to those of the others, then there.
void NodeCollectives::broadcast(const Task& task, const Call& call) {
  const int root = nodes_.node_of(task.root);
  const std::size_t bytes = task.count * size_of(task.type);
  Task inside = task;
  inside.root = node_ == root ? nodes_.place_of(task.root) : 0;
  in_node(node_ == root ? inside : Task{}, call);
  char* const data = static_cast<char*>(task.out);
  if (leads() && CpuCallExchange::takes(bytes)) {
    whole_.broadcast_little(*counterparts_, call, data, bytes, root);
  } else if (leads()) {
    whole_.agree(*counterparts_, call);
    whole_.pairwise().broadcast(*counterparts_, data, bytes, root);
  }
  in_node(node_ == root ? Task{} : inside, call);
}

void NodeCollectives::all_reduce(const Task& task, const Call& call) {
  const Task sums = as_sums(task);
  CpuCallExchange::takes(sums.count * size_of(sums.type)) ? all_reduce_by_leaders(task, sums, call)
                                                          : all_reduce_in_shares(task, sums, call);
}

/// The same with the type of the sums, which then are rounded once, at the end. An average is a sum
/// until then.
Task NodeCollectives::as_sums(const Task& task) {
  Task sums = task;
  if (task.reduce == ReduceOp::avg) sums.reduce = ReduceOp::sum;
  const Reduction by = reduction(task.type, task.reduce);
  if (by.sum_width == size_of(task.type)) return sums;
  loaded_.resize(task.count * by.sum_width);
  by.load(loaded_.data(), task.in, task.count);
  sums.in = loaded_.data();
  sums.type = DataType::float32;
  return sums;
}

void NodeCollectives::all_reduce_by_leaders(const Task& task, const Task& sums, const Call& call) {
  const std::size_t width = size_of(sums.type);
  sums_.resize(task.count * width);
  Task inside = sums;
  inside.operation = Operation::reduce;
  inside.root = 0;
  inside.out = sums_.data();
  in_node(inside, call);
  if (leads()) {
    Task between = sums;
    between.in = sums_.data();
    between.out = sums_.data();
    whole_.all_reduce_little(*counterparts_, call, between);
    reduction(task.type, task.reduce).store(task.out, sums_.data(), task.count, context_.size);
  }
  Task result = task;
  result.operation = Operation::broadcast;
  result.root = 0;
  result.in = task.out;
  in_node(result, call);
}

void NodeCollectives::all_reduce_in_shares(const Task& task, const Task& sums, const Call& call) {
  const std::vector<std::size_t> counts = shares_of(task.count);
  const Blocks shares(counts, 0, static_cast<int>(counts.size()));
  Task inside = sums;
  inside.operation = Operation::reduce_scatter_v;
  inside.count = shares.count(place_);
  inside.send_counts = counts;
  sums_.resize(inside.count * size_of(sums.type));
  inside.out = sums_.data();
  in_node(inside, call);
  agree(call);
  in_node({}, call);  // until then counterparts may be in another call
  if (counterparts_) combine_with_counterparts(sums, inside.count);

  char* const own = static_cast<char*>(task.out) + shares.begin(place_) * size_of(task.type);
  reduction(task.type, task.reduce).store(own, sums_.data(), inside.count, context_.size);
  Task result = task;
  result.operation = Operation::all_gather_v;
  result.count = inside.count;
  result.in = own;
  result.recv_counts = counts;
  in_node(result, call);
}

/// By place: ranks without a counterpart on every node have none.
std::vector<std::size_t> NodeCollectives::shares_of(std::size_t count) const {
  const Blocks even = Blocks::even(count, nodes_.smallest());
  std::vector<std::size_t> counts(static_cast<std::size_t>(nodes_.size(node_)));
  for (int place = 0; place < nodes_.smallest(); ++place) {
    counts[static_cast<std::size_t>(place)] = even.count(place);
  }
  return counts;
}

/// Each combines one part of the share, and sends the others the result.
void NodeCollectives::combine_with_counterparts(const Task& sums, std::size_t count) {
  const std::size_t width = size_of(sums.type);
  const Blocks parts = Blocks::even(count, nodes_.count());
  std::vector<Share> shares;
  for (int node = 0; node < nodes_.count(); ++node) {
    shares.push_back({parts.begin(node), parts.count(node)});
  }
  char* const own = sums_.data() + parts.begin(node_) * width;
  whole_.reduction().run_pairwise(*counterparts_, reduction(sums.type, sums.reduce), width,
                                  sums_.data(), shares, own);
  whole_.pairwise().exchange(
      *counterparts_, [&](int) { return Outgoing{own, parts.count(node_) * width}; },
      [&](int node) {
        return Incoming{sums_.data() + parts.begin(node) * width, parts.count(node) * width};
      });
}

}  // namespace ddp::internal
