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

GlooCollectives::GlooCollectives(GroupContext& context, GlooMesh& mesh)
    : context_(context),
      whole_(GlooPart::whole(mesh.size(), mesh.rank())),
      exchange_(mesh),
      pairwise_(mesh),
      reduce_(exchange_, pairwise_) {}

void GlooCollectives::run(const Task& task, const Call& call) {
  if (reduces(task.operation)) return reduce(task, call);
  if (task.operation == Operation::broadcast) return broadcast(task, call);
  move(task, call);
}

void GlooCollectives::broadcast(const Task& task, const Call& call) {
  const std::size_t bytes = task.count * size_of(task.type);
  if (GlooCallExchange::takes(bytes)) return move(task, call);
  agree(whole_, call);
  pairwise_.broadcast(whole_, static_cast<char*>(task.out), bytes, task.root);
}

/// Every block is sent directly from the rank that has it to the one that gets it.
void GlooCollectives::move(const Task& task, const Call& call) {
  Task copied = task;
  const bool swaps =
      task.operation == Operation::all_to_all || task.operation == Operation::all_to_all_v;
  const Route route(copied, context_.rank, context_.size);
  payloads_.resize(static_cast<std::size_t>(context_.size));
  for (int other = 0; other < context_.size; ++other) {
    const auto out = route.to(other);
    payload(other) = {out.data, GlooCallExchange::takes(out.bytes) ? out.bytes : 0,
                      out.bytes / route.width(), route.from(other).bytes / route.width()};
  }
  exchange_call(whole_, call);
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
    if (other == context_.rank || in.bytes == 0 || !GlooCallExchange::takes(in.bytes)) continue;
    std::memcpy(in.data, exchange_.data_of(other), in.bytes);
  }
  pairwise_.exchange(
      whole_,
      [&](int other) {
        const auto out = route.to(other);
        return GlooCallExchange::takes(out.bytes) ? GlooPairwiseExchange::Outgoing{} : out;
      },
      [&](int other) {
        const auto in = route.from(other);
        return GlooCallExchange::takes(in.bytes) ? GlooPairwiseExchange::Incoming{} : in;
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
  const bool collects = !scatters && !GlooCallExchange::takes(task.count * width);
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
  payloads_.resize(shares.size());
  for (int rank = 0; rank < context_.size; ++rank) {
    const Share& share = shares[static_cast<std::size_t>(rank)];
    const std::size_t bytes = share.count * width;
    payload(rank) = {in + share.begin * width, GlooCallExchange::takes(bytes) ? bytes : 0,
                     share.count, mine.count};
  }
  exchange_call(whole_, call);
  const Reduction reduction = internal::reduction(task.type, task.reduce);
  char* out = static_cast<char*>(task.out);
  if (collects && out != nullptr) out += mine.begin * width;
  if (collects && out == nullptr) {  // not the root: its share is only forwarded
    scratch_.resize(mine.count * width);
    out = scratch_.data();
  }
  reduce_.run(whole_, reduction, width, in, shares, out);
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
      whole_,
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

void GlooCollectives::agree(const GlooPart& part, const Call& call, const char* data,
                            std::size_t bytes) {
  payloads_.assign(static_cast<std::size_t>(part.size()), {.data = data, .bytes = bytes});
  exchange_call(part, call);
}

void GlooCollectives::exchange_call(const GlooPart& part, const Call& call) {
  const std::optional<int> index = exchange_.run(part, call, payloads_);
  if (!index) return;
  const ExchangePayload& ours = payload(*index);
  const int other = part.at(*index);
  const Announced theirs = {exchange_.call_of(other), exchange_.sends_of(other),
                            exchange_.expects_of(other)};
  const auto text =
      difference({call, ours.sends, ours.expects}, theirs, name_ranks({context_.named(other)}));
  throw agree_on(context_, "in " + describe(call), ErrorKind::mismatch, text.value());
}

std::vector<std::int32_t> GlooCollectives::all_gather(std::int32_t mine) {
  agree(whole_, {}, reinterpret_cast<const char*>(&mine), sizeof(mine));
  std::vector<std::int32_t> all(static_cast<std::size_t>(context_.size), mine);
  for (int other = 0; other < context_.size; ++other) {
    if (other == context_.rank) continue;
    std::memcpy(&all[static_cast<std::size_t>(other)], data_of(other), sizeof(mine));
  }
  return all;
}

}  // namespace ddp::internal
