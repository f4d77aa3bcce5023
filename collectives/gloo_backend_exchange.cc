// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_exchange.h"

#include <cstring>

namespace ddp::internal {
namespace {

constexpr int kSlot = 0;

}  // namespace

GlooExchange::GlooExchange(GlooMesh& mesh)
    : mesh_(mesh), outbox_(sizeof(Call) + kLimit), peers_(static_cast<std::size_t>(mesh.size())) {
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (rank == mesh.rank()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.inbox.resize(outbox_.size());
    peer.from = mesh.pair(rank).createRecvBuffer(kSlot, peer.inbox.data(), peer.inbox.size());
    peer.to = mesh.pair(rank).createSendBuffer(kSlot, outbox_.data(), outbox_.size());
  }
}

std::optional<int> GlooExchange::run(const Call& call, std::string_view data) {
  std::memcpy(outbox_.data(), &call, sizeof(call));
  if (!data.empty()) std::memcpy(outbox_.data() + sizeof(call), data.data(), data.size());
  const int size = mesh_.size();
  for (int step = 1; step < size; ++step) {
    const int other = (mesh_.rank() + step) % size;
    mesh_.turn_to(other);
    auto& to = *peers_[static_cast<std::size_t>(other)].to;
    to.send(0, sizeof(call) + data.size());
    to.waitSend();
  }
  for (int step = 1; step < size; ++step) {
    const int other = (mesh_.rank() + size - step) % size;
    mesh_.turn_to(other);
    peers_[static_cast<std::size_t>(other)].from->waitRecv();
    if (call_of(other) != call) return other;
  }
  return std::nullopt;
}

const char* GlooExchange::data_of(int rank) const {
  return peers_[static_cast<std::size_t>(rank)].inbox.data() + sizeof(Call);
}

Call GlooExchange::call_of(int rank) const {
  Call call;
  std::memcpy(&call, peers_[static_cast<std::size_t>(rank)].inbox.data(), sizeof(call));
  return call;
}

}  // namespace ddp::internal
