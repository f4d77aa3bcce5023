// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/collectives.h"

#include <cstring>
#include <optional>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/announced.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "collectives/call/route.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

bool is_small(std::size_t bytes) {
  return bytes <= GlooCallExchange::kLimit;
}

}  // namespace

GlooCollectives::GlooCollectives(GroupContext& context, GlooMesh& mesh)
    : context_(context),
      exchange_(mesh),
      pairwise_(mesh),
      reduce_(mesh, exchange_, pairwise_),
      payloads_(static_cast<std::size_t>(context.size)) {}

void GlooCollectives::run(const Task& task, const Call& call) {
  if (reduces(task.operation)) return reduce(task, call);
  if (task.operation == Operation::broadcast) return broadcast(task, call);
  move(task, call);
}

void GlooCollectives::broadcast(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  if (is_small(bytes)) return move(task, call);
  payloads_.assign(payloads_.size(), {});
  exchange_call(call);
  pairwise_.broadcast(static_cast<char*>(task.out), bytes, task.root);
}

/// Every block is sent directly from the rank that has it to the one that gets it.
void GlooCollectives::move(const Task& task, const Call& call) {
  Task copied = task;
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  const Route route(copied, context_.rank, context_.size);
  for (int other = 0; other < context_.size; ++other) {
    const auto out = route.to(other);
    payload(other) = {out.data, is_small(out.bytes) ? out.bytes : 0, out.bytes / route.width(),
                      route.from(other).bytes / route.width()};
  }
  exchange_call(call);
  if (swaps && task.in == task.out) {
    // In place: received data must not overwrite what is yet to be sent.
    const Blocks all(task.send_counts, task.count, context_.size);
    const char* const in = static_cast<const char*>(task.in);
    scratch_.assign(in, in + all.total() * route.width());
    copied.in = scratch_.data();
  }
  copy_own(route, context_.rank);
  for (int other = 0; other < context_.size; ++other) {
    const auto in = route.from(other);
    if (other == context_.rank || in.bytes == 0 || !is_small(in.bytes)) continue;
    std::memcpy(in.data, exchange_.data_of(other), in.bytes);
  }
  pairwise_.exchange(
      [&](int other) {
        const auto out = route.to(other);
        return is_small(out.bytes) ? GlooPairwiseExchange::Outgoing{} : out;
      },
      [&](int other) {
        const auto in = route.from(other);
        return is_small(in.bytes) ? GlooPairwiseExchange::Incoming{} : in;
      });
}

/// Small data is sent whole to every rank that gets the result, and combined there. Of large data
/// each rank combines one share, and the shares are collected afterwards: Rabenseifner's
/// algorithm (Thakur, Rabenseifner, Gropp 2005, 3.4 and 3.5), whose 2 (n-1)/n times the data for
/// all_reduce is the least that can be (Patarasuk, Yuan: Bandwidth Optimal All-reduce Algorithms
/// for Clusters of Workstations, 2009).
void GlooCollectives::reduce(const Task& task, const Call& call) {
  const std::size_t width = size_of(task.type);
  const bool scatters =
      task.operation == Operation::reduce_scatter || task.operation == Operation::reduce_scatter_v;
  const bool collects = !scatters && !is_small(task.count * width);
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
  for (int rank = 0; rank < context_.size; ++rank) {
    const Share& share = shares[static_cast<std::size_t>(rank)];
    const std::size_t bytes = share.count * width;
    payload(rank) = {in + share.begin * width, is_small(bytes) ? bytes : 0, share.count,
                     mine.count};
  }
  exchange_call(call);
  const Reduction reduction = internal::reduction(task.type, task.reduce);
  char* out = static_cast<char*>(task.out);
  if (collects && out != nullptr) out += mine.begin * width;
  if (collects && out == nullptr) {  // not the root: its share is only forwarded
    scratch_.resize(mine.count * width);
    out = scratch_.data();
  }
  reduce_.run(reduction, width, in, shares, out);
  if (collects) collect_shares(task, shares, out);
}

/// Sends each rank's combined share to all ranks, or to the root.
void GlooCollectives::collect_shares(const Task& task, const std::vector<Share>& shares,
                                     const char* mine) {
  const std::size_t width = size_of(task.type);
  const auto gets = [&](int rank) {
    return task.operation == Operation::all_reduce || rank == task.root;
  };
  pairwise_.exchange(
      [&](int other) {
        const Share& share = shares[static_cast<std::size_t>(context_.rank)];
        return gets(other) ? GlooPairwiseExchange::Outgoing{mine, share.count * width}
                           : GlooPairwiseExchange::Outgoing{};
      },
      [&](int other) {
        if (!gets(context_.rank)) return GlooPairwiseExchange::Incoming{};
        const Share& share = shares[static_cast<std::size_t>(other)];
        return GlooPairwiseExchange::Incoming{static_cast<char*>(task.out) + share.begin * width,
                                              share.count * width};
      });
}

void GlooCollectives::exchange_call(const Call& call) {
  const std::optional<int> other = exchange_.run(call, payloads_);
  if (!other) return;
  const ExchangePayload& ours = payload(*other);
  const Announced theirs = {exchange_.call_of(*other), exchange_.sends_of(*other),
                            exchange_.expects_of(*other)};
  const auto text =
      difference({call, ours.sends, ours.expects}, theirs, name_ranks({context_.named(*other)}));
  throw agree_on(context_, "in " + describe(call), ErrorKind::mismatch, text.value());
}

bool GlooCollectives::is_true_on_all(bool mine) {
  const char answer = mine ? 1 : 0;
  payloads_.assign(payloads_.size(), {.data = &answer, .bytes = 1});
  exchange_.run({}, payloads_);
  for (int other = 0; other < context_.size; ++other) {
    if (other != context_.rank) mine = mine && *exchange_.data_of(other) != 0;
  }
  return mine;
}

}  // namespace ddp::internal
