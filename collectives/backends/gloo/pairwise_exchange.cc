// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/pairwise_exchange.h"

#include <algorithm>
#include <memory>

#include <gloo/transport/buffer.h>

namespace ddp::internal {
namespace {

constexpr int kPieceSlot = 1;  // GlooCallExchange has slot 0

}  // namespace

void GlooPairwiseExchange::send(int rank, const char* data, std::size_t bytes) {
  if (bytes == 0) return;
  mesh_.set_partner(rank);
  // Gloo only reads it, but its interface has one pointer for both directions.
  const auto to = mesh_.pair(rank).createSendBuffer(kPieceSlot, const_cast<char*>(data), bytes);
  to->send(0, bytes);
  to->waitSend();
}

void GlooPairwiseExchange::receive(int rank, char* data, std::size_t bytes) {
  if (bytes == 0) return;
  mesh_.set_partner(rank);
  mesh_.pair(rank).createRecvBuffer(kPieceSlot, data, bytes)->waitRecv();
}

void GlooPairwiseExchange::exchange(const GlooPart& part,
                                    const std::function<Outgoing(int index)>& to,
                                    const std::function<Incoming(int index)>& from) {
  for (int step = 1; step < part.size(); ++step) {
    const int next = part.after(step);
    const int previous = part.before(step);
    const Outgoing out = to(next);
    const Incoming in = from(previous);
    for (std::size_t at = 0; at < std::max(out.bytes, in.bytes); at += kPiece) {
      if (at < out.bytes) send(part.at(next), out.data + at, std::min(kPiece, out.bytes - at));
      if (at < in.bytes) receive(part.at(previous), in.data + at, std::min(kPiece, in.bytes - at));
    }
  }
}

void GlooPairwiseExchange::broadcast(const GlooPart& part, char* data, std::size_t bytes,
                                     int root) {
  const int next = part.after(1);
  const int previous = part.before(1);
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t length = std::min(kPiece, bytes - at);
    if (part.index() != root) receive(part.at(previous), data + at, length);
    if (next != root) send(part.at(next), data + at, length);
  }
}

}  // namespace ddp::internal
