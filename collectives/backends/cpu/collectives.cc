// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/collectives.h"

#include <algorithm>
#include <cstring>

#include "collectives/agreement/comparison.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "collectives/call/route.h"

namespace ddp::internal {
namespace {

/// Up to this size a rank sends to each other at once, instead of in log2(n) steps.
constexpr int kFew = 8;

bool is_many(const CpuPart& part) {
  return part.size() > kFew;
}

}  // namespace

CpuCollectives::CpuCollectives(GroupContext& context, CpuMesh& mesh)
    : context_(context),
      whole_(CpuPart::whole(mesh.size(), mesh.rank())),
      exchange_(context, mesh),
      pairwise_(mesh),
      reduce_(exchange_, pairwise_),
      trees_(pairwise_) {}

void CpuCollectives::run(const Task& task, const Call& call) {
  if (is_many(whole_) && run_in_trees(task, call)) return;
  if (reduces(task.operation)) return reduce(task, call);
  if (task.operation == Operation::broadcast) return broadcast(task, call);
  move(task, call);
}

void CpuCollectives::broadcast(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  if (CpuCallExchange::takes(bytes)) return move(task, call);
  agree(whole_, call);
  pairwise_.broadcast(whole_, static_cast<char*>(task.out), bytes, task.root);
}

/// Sends every block directly from the rank that has it to the one that gets it.
void CpuCollectives::move(const Task& task, const Call& call) {
  Task copied = task;
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  const Route route(copied, context_.rank, context_.size);
  set_counts(task);
  for (int other = 0; other < context_.size; ++other) {
    const auto out = route.to(other);
    payload(other).data = out.data;
    payload(other).bytes = CpuCallExchange::takes(out.bytes) ? out.bytes : 0;
  }
  const bool is_long =
      !is_unequal(task.operation) && !CpuCallExchange::takes(task.count * size_of(task.type));
  is_long ? agree(whole_, call) : exchange_.run(whole_, call, payloads_);
  if (swaps && task.in == task.out) {
    // In place: received data must not overwrite data that is yet to be sent.
    const Blocks all(task.send_counts, task.count, context_.size);
    const char* const in = static_cast<const char*>(task.in);
    scratch_.assign(in, in + all.total() * route.width());
    copied.in = scratch_.data();
  }
  copy_own(route, context_.rank);
  for (int other = 0; other < context_.size; ++other) {
    const auto in = route.from(other);
    if (other == context_.rank || in.bytes == 0 || !CpuCallExchange::takes(in.bytes)) continue;
    std::memcpy(in.data, exchange_.data_of(other), in.bytes);
  }
  pairwise_.exchange(
      whole_,
      [&](int other) {
        const auto out = route.to(other);
        return CpuCallExchange::takes(out.bytes) ? CpuPairwiseExchange::Outgoing{} : out;
      },
      [&](int other) {
        const auto in = route.from(other);
        return CpuCallExchange::takes(in.bytes) ? CpuPairwiseExchange::Incoming{} : in;
      });
}

/// Sends small data whole to every rank that gets the result; each combines it. With large data
/// each rank combines one share, and the shares are collected afterwards: Rabenseifner's algorithm
/// (Thakur, Rabenseifner, Gropp 2005, 3.4 and 3.5). Its 2 (n-1)/n times the data for all_reduce is
/// the least possible (Patarasuk, Yuan: Bandwidth Optimal All-reduce Algorithms for Clusters of
/// Workstations, 2009).
void CpuCollectives::reduce(const Task& task, const Call& call) {
  const std::size_t width = size_of(task.type);
  const bool scatters =
      task.operation == Operation::reduce_scatter || task.operation == Operation::reduce_scatter_v;
  const bool collects = !scatters && !CpuCallExchange::takes(task.count * width);
  const Blocks blocks = collects ? Blocks::even(task.count, context_.size)
                                 : Blocks(task.send_counts, task.count, context_.size);
  const char* const in = static_cast<const char*>(task.in);
  std::vector<Share> shares(static_cast<std::size_t>(context_.size));
  for (int rank = 0; rank < context_.size; ++rank) {
    Share& share = shares[static_cast<std::size_t>(rank)];
    const bool wants = task.operation == Operation::all_reduce || rank == task.root;
    if (scatters || collects) {
      share = {blocks.begin(rank), blocks.count(rank)};
    } else if (wants) {
      share = {0, task.count};
    }
  }
  const Share& mine = shares[static_cast<std::size_t>(context_.rank)];
  set_counts(task);
  for (int rank = 0; rank < context_.size; ++rank) {
    const Share& share = shares[static_cast<std::size_t>(rank)];
    const std::size_t bytes = share.count * width;
    payload(rank).data = in + share.begin * width;
    payload(rank).bytes = CpuCallExchange::takes(bytes) ? bytes : 0;
  }
  const auto size = static_cast<std::size_t>(context_.size);
  const std::size_t longest = collects ? (task.count + size - 1) / size : task.count;
  const bool is_long = !is_unequal(task.operation) && !CpuCallExchange::takes(longest * width);
  is_long ? agree(whole_, call) : exchange_.run(whole_, call, payloads_);
  const Reduction reduction = internal::reduction(task.type, task.reduce);
  char* out = static_cast<char*>(task.out);
  if (collects && out != nullptr) out += mine.begin * width;
  if (collects && out == nullptr) {  // not the root: its share is only forwarded
    scratch_.resize(mine.count * width);
    out = scratch_.data();
  }
  is_long ? reduce_.run_pairwise(whole_, reduction, width, in, shares, out)
          : reduce_.run(whole_, reduction, width, in, shares, out);
  if (collects) collect_shares(task, shares, out);
}

/// Sends each rank's combined share to all ranks, or to the root.
void CpuCollectives::collect_shares(const Task& task, const std::vector<Share>& shares,
                                    const char* mine) {
  const std::size_t width = size_of(task.type);
  const auto gets = [&](int rank) {
    return task.operation == Operation::all_reduce || rank == task.root;
  };
  pairwise_.exchange(
      whole_,
      [&](int other) {
        const Share& share = shares[static_cast<std::size_t>(context_.rank)];
        return gets(other) ? CpuPairwiseExchange::Outgoing{mine, share.count * width}
                           : CpuPairwiseExchange::Outgoing{};
      },
      [&](int other) {
        if (!gets(context_.rank)) return CpuPairwiseExchange::Incoming{};
        const Share& share = shares[static_cast<std::size_t>(other)];
        return CpuPairwiseExchange::Incoming{static_cast<char*>(task.out) + share.begin * width,
                                             share.count * width};
      });
}

void CpuCollectives::agree(const CpuPart& part, const Call& call) {
  if (is_many(part)) return exchange_.run_in_steps(part, call);
  payloads_.assign(static_cast<std::size_t>(part.size()), {});
  exchange_.run(part, call, payloads_);
}

/// True if trees are used; the same on all ranks.
bool CpuCollectives::run_in_trees(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  if (!CpuCallExchange::takes(bytes)) return false;
  switch (task.operation) {
    case Operation::barrier:
      agree(whole_, call);
      return true;
    case Operation::broadcast:
      broadcast_little(whole_, call, static_cast<char*>(task.out), bytes, task.root);
      return true;
    case Operation::reduce:
    case Operation::all_reduce:
      agree(whole_, call);
      trees_.reduce(whole_, task);
      return true;
    case Operation::all_gather:
      agree(whole_, call);
      copy_own(Route(task, context_.rank, context_.size), context_.rank);
      trees_.all_gather(whole_, static_cast<char*>(task.out), bytes);
      return true;
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
    case Operation::allocate:
    case Operation::send:
    case Operation::recv:
    case Operation::batch_send_recv:
      break;
  }
  return false;
}

void CpuCollectives::broadcast_little(const CpuPart& part, const Call& call, char* data,
                                      std::size_t bytes, int root) {
  if (is_many(part)) {
    agree(part, call);
    return trees_.broadcast(part, data, bytes, root);
  }
  const bool is_root = part.index() == root;
  payloads_.assign(static_cast<std::size_t>(part.size()),
                   {.data = data, .bytes = is_root ? bytes : 0});
  exchange_.run(part, call, payloads_);
  if (!is_root && bytes > 0) std::memcpy(data, exchange_.data_of(part.at(root)), bytes);
}

void CpuCollectives::reduce_little(const CpuPart& part, const Call& call, const Task& sums) {
  if (is_many(part)) {
    agree(part, call);
    return trees_.reduce(part, sums);
  }
  std::vector<Share> shares(static_cast<std::size_t>(part.size()));
  for (int index = 0; index < part.size(); ++index) {
    const bool wants = sums.operation == Operation::all_reduce || index == sums.root;
    if (wants) shares[static_cast<std::size_t>(index)].count = sums.count;
  }
  reduce_scatter_little(part, call, sums, shares);
}

void CpuCollectives::reduce_scatter_little(const CpuPart& part, const Call& call, const Task& sums,
                                           const std::vector<Share>& shares) {
  const std::size_t width = size_of(sums.type);
  const char* const in = static_cast<const char*>(sums.in);
  payloads_.clear();
  for (const Share& share : shares) {
    payloads_.push_back({.data = in + share.begin * width, .bytes = share.count * width});
  }
  exchange_.run(part, call, payloads_);
  reduce_.run(part, internal::reduction(sums.type, sums.reduce), width, in, shares,
              static_cast<char*>(sums.out));
}

void CpuCollectives::all_gather_little(const CpuPart& part, const Call& call, char* out,
                                       std::size_t bytes) {
  if (is_many(part)) {
    agree(part, call);
    return trees_.all_gather(part, out, bytes);
  }
  const auto block = [&](int index) { return out + static_cast<std::size_t>(index) * bytes; };
  payloads_.assign(static_cast<std::size_t>(part.size()),
                   {.data = block(part.index()), .bytes = bytes});
  exchange_.run(part, call, payloads_);
  for (int index = 0; index < part.size() && bytes > 0; ++index) {
    if (index == part.index()) continue;
    std::memcpy(block(index), exchange_.data_of(part.at(index)), bytes);
  }
}

/// Begins the payloads of a call of all ranks.
void CpuCollectives::set_counts(const Task& task) {
  payloads_.assign(static_cast<std::size_t>(context_.size), {});
  if (!is_unequal(task.operation)) return;
  const auto counts = counts_of(task, context_.rank, context_.size);
  for (int rank = 0; rank < context_.size; ++rank) {
    payload(rank).counts = counts[static_cast<std::size_t>(rank)];
  }
}

void CpuCollectives::agree_on_counts(const Task& task, const Call& call) {
  set_counts(task);
  exchange_.run(whole_, call, payloads_);
}

}  // namespace ddp::internal
