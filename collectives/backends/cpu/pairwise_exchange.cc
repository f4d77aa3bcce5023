// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/pairwise_exchange.h"

#include <algorithm>

namespace ddp::internal {
namespace {

/// The piece that begins at `at`; empty if `at` is past the end.
template <class Data>
Data piece_of(const Data& whole, std::size_t at) {
  if (at >= whole.bytes) return {};
  return {whole.data + at, std::min(CpuPairwiseExchange::kPiece, whole.bytes - at)};
}

}  // namespace

void CpuPairwiseExchange::swap(int to, const Outgoing& out, int from, const Incoming& in) {
  mesh_.swap({.rank = to, .parts = {std::span(out.data, out.bytes)}},
             {.rank = from, .data = in.data, .bytes = in.bytes});
}

void CpuPairwiseExchange::swap_in_pieces(int to, const Outgoing& out, int from,
                                         const Incoming& in) {
  for (std::size_t at = 0; at < std::max(out.bytes, in.bytes); at += kPiece) {
    swap(to, piece_of(out, at), from, piece_of(in, at));
  }
}

void CpuPairwiseExchange::exchange(const CpuPart& part,
                                   const std::function<Outgoing(int index)>& to,
                                   const std::function<Incoming(int index)>& from) {
  for (int step = 1; step < part.size(); ++step) {
    const int next = part.after(step);
    const int previous = part.before(step);
    swap_in_pieces(part.at(next), to(next), part.at(previous), from(previous));
  }
}

/// Forwards each piece while the next one comes.
void CpuPairwiseExchange::broadcast(const CpuPart& part, char* data, std::size_t bytes, int root) {
  const int next = part.after(1);
  const bool receives = part.index() != root;
  const bool sends = next != root;
  std::size_t came = receives ? 0 : bytes;
  std::size_t sent = 0;
  while (came < bytes || (sends && sent < bytes)) {
    const std::size_t out = sends ? std::min(kPiece, came - sent) : 0;
    const std::size_t in = std::min(kPiece, bytes - came);
    swap(part.at(next), {data + sent, out}, part.at(part.before(1)), {data + came, in});
    sent += out;
    came += in;
  }
}

}  // namespace ddp::internal
