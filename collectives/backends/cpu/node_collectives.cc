// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/node_collectives.h"

#include <cstring>
#include <utility>

#include "collectives/call/blocks.h"

namespace ddp::internal {

NodeCollectives::NodeCollectives(GroupContext& context, CpuCollectives& whole, SharedMemory shared)
    : context_(context),
      whole_(whole),
      own_(context, whole, std::move(shared)),
      blocks_(context, whole, own_) {}

void NodeCollectives::run(const Task& task, const Call& call) {
  if (are_on_one_node()) return own_.memory()->run(task, call);
  if (own_.nodes().count() == context_.size) return whole_.run(task, call);
  switch (task.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      return reduce(task, call);
    case Operation::all_gather:
    case Operation::all_gather_v:
      return blocks_.all_gather(task, call);
    case Operation::gather:
      return blocks_.gather(task, call);
    case Operation::scatter:
      return scatter(task, call);
    case Operation::all_to_all:
      return blocks_.all_to_all(task, call);
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      return blocks_.reduce_scatter(task, call);
    case Operation::broadcast:
      return broadcast(task, call);
    case Operation::barrier:
      return barrier(call);
    case Operation::gather_v:
    case Operation::scatter_v:
    case Operation::all_to_all_v:
    case Operation::allocate:
      own_.run({}, call);
      return whole_.run(task, call);
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;  // see CpuMessages
  }
}

std::shared_ptr<void> NodeCollectives::allocate(const Task& task, const Call& call) {
  if (are_on_one_node()) return own_.memory()->allocate(task, call);
  run(task, call);
  return nullptr;
}

std::optional<ShmRings> NodeCollectives::rings() const {
  if (own_.memory() == nullptr) return std::nullopt;
  const ShmCollectives& memory = *own_.memory();
  return ShmRings(memory.arena(), ranks_here(), context_.rank, memory.heap());
}

void NodeCollectives::on_end(int rank) noexcept {
  const Nodes& nodes = own_.nodes();
  if (own_.memory() == nullptr || nodes.node_of(rank) != own_.node()) return;
  own_.memory()->on_end(nodes.place_of(rank));
}

void NodeCollectives::stop() noexcept {
  if (own_.memory() != nullptr) own_.memory()->stop(own_.place());
}

void NodeCollectives::barrier(const Call& call) {
  own_.run({}, call);
  own_.agree(call);
  own_.run({}, call);
}

/// Broadcasts within the root's node, then to the other nodes' first ranks, then on their nodes.
void NodeCollectives::broadcast(const Task& task, const Call& call) {
  const int root = own_.nodes().node_of(task.root);
  const std::size_t bytes = task.count * size_of(task.type);
  Task inside = task;
  inside.root = own_.node() == root ? own_.nodes().place_of(task.root) : 0;
  own_.run(own_.node() == root ? inside : Task{}, call);
  char* const data = static_cast<char*>(task.out);
  if (own_.leads() && CpuCallExchange::takes(bytes)) {
    whole_.broadcast_little(*own_.counterparts(), call, data, bytes, root);
  } else if (own_.leads()) {
    whole_.agree(*own_.counterparts(), call);
    whole_.pairwise().broadcast(*own_.counterparts(), data, bytes, root);
  }
  own_.run(own_.node() == root ? Task{} : inside, call);
}

/// If the data for all ranks is little, sends it to all of them, and each takes its block.
void NodeCollectives::scatter(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  const std::size_t all = static_cast<std::size_t>(context_.size) * bytes;
  if (all > kLittleForAll) {
    own_.run({}, call);
    return whole_.run(task, call);
  }
  result_.resize(all);
  if (context_.rank == task.root && all > 0) std::memcpy(result_.data(), task.in, all);
  const Task whole{.operation = Operation::broadcast,
                   .type = DataType::uint8,
                   .root = task.root,
                   .count = all,
                   .in = result_.data(),
                   .out = result_.data()};
  broadcast(whole, call);
  const std::size_t own = static_cast<std::size_t>(context_.rank) * bytes;
  if (bytes > 0) std::memmove(task.out, result_.data() + own, bytes);
}

/// Does reduce and all_reduce.
void NodeCollectives::reduce(const Task& task, const Call& call) {
  const PartialSums by(task.type, task.reduce);
  const char* const in = by.load(static_cast<const char*>(task.in), task.count, loaded_);
  CpuCallExchange::takes(task.count * by.whole.sum_width) ? reduce_by_leaders(task, by, in, call)
                                                          : reduce_in_shares(task, by, in, call);
}

/// Whether a rank of the node gets the result.
bool NodeCollectives::gets_result(const Task& task, int node) const {
  return task.operation == Operation::all_reduce || node == own_.nodes().node_of(task.root);
}

/// Returns the memory for the result on a node that gets it.
char* NodeCollectives::result_of(const Task& task) {
  if (task.operation == Operation::all_reduce || context_.rank == task.root) {
    return static_cast<char*>(task.out);
  }
  result_.resize(task.count * size_of(task.type));
  return result_.data();
}

void NodeCollectives::reduce_by_leaders(const Task& task, const PartialSums& by, const char* in,
                                        const Call& call) {
  sums_.resize(task.count * by.whole.sum_width);
  const Task inside{.operation = Operation::reduce,
                    .type = by.type,
                    .reduce = by.op,
                    .count = task.count,
                    .in = in,
                    .out = sums_.data()};
  own_.run(inside, call);
  const bool gets = gets_result(task, own_.node());
  char* const out = gets ? result_of(task) : nullptr;
  if (own_.leads()) {
    Task between = inside;
    between.operation = task.operation;
    between.root = own_.nodes().node_of(task.root);
    between.in = sums_.data();
    between.out = sums_.data();
    whole_.reduce_little(*own_.counterparts(), call, between);
    if (gets) by.whole.store(out, sums_.data(), task.count, context_.size);
  }
  const Task result{.operation = Operation::broadcast,
                    .type = task.type,
                    .count = task.count,
                    .in = out,
                    .out = out};
  own_.run(gets ? result : Task{}, call);
}

void NodeCollectives::reduce_in_shares(const Task& task, const PartialSums& by, const char* in,
                                       const Call& call) {
  const std::vector<std::size_t> counts = own_.shares_by_place(task.count);
  const Blocks shares(counts, 0, static_cast<int>(counts.size()));
  const std::size_t count = shares.count(own_.place());
  sums_.resize(count * by.whole.sum_width);
  const Task inside{.operation = Operation::reduce_scatter_v,
                    .type = by.type,
                    .reduce = by.op,
                    .count = count,
                    .in = in,
                    .out = sums_.data(),
                    .send_counts = counts};
  own_.run(inside, call);
  own_.agree(call);
  own_.run({}, call);  // before that, counterparts may be in another call
  if (own_.counterparts()) combine_with_counterparts(task, by, count);
  if (!gets_result(task, own_.node())) return;

  char* const out = result_of(task);
  char* const own = out + shares.begin(own_.place()) * size_of(task.type);
  by.whole.store(own, sums_.data(), count, context_.size);
  const bool is_for_all = task.operation == Operation::all_reduce;
  const Task result{.operation = is_for_all ? Operation::all_gather_v : Operation::gather_v,
                    .type = task.type,
                    .root = is_for_all ? 0 : own_.nodes().place_of(task.root),
                    .count = count,
                    .in = own,
                    .out = out,
                    .recv_counts = counts};
  own_.run(result, call);
}

/// Each rank combines one part of the share, and sends it to those that get the result.
void NodeCollectives::combine_with_counterparts(const Task& task, const PartialSums& by,
                                                std::size_t count) {
  const std::size_t width = by.whole.sum_width;
  const Blocks parts = Blocks::even(count, own_.nodes().count());
  std::vector<Share> shares;
  for (int node = 0; node < own_.nodes().count(); ++node) {
    shares.push_back({parts.begin(node), parts.count(node)});
  }
  char* const own = sums_.data() + parts.begin(own_.node()) * width;
  whole_.reduction().run_pairwise(*own_.counterparts(), by.between, width, sums_.data(), shares,
                                  own);
  const bool gets = gets_result(task, own_.node());
  whole_.pairwise().exchange(
      *own_.counterparts(),
      [&](int node) {
        return gets_result(task, node) ? Outgoing{own, parts.count(own_.node()) * width}
                                       : Outgoing{};
      },
      [&](int node) {
        return gets ? Incoming{sums_.data() + parts.begin(node) * width, parts.count(node) * width}
                    : Incoming{};
      });
}

}  // namespace ddp::internal
