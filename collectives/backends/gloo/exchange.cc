// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/exchange.h"

#include <cstring>

namespace ddp::internal {
namespace {

constexpr int kExchangeSlot = 0;

}  // namespace

GlooExchange::GlooExchange(GlooMesh& mesh)
    : mesh_(mesh), outbox_(sizeof(Head) + kLimit), peers_(static_cast<std::size_t>(mesh.size())) {
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (rank == mesh.rank()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.inbox.resize(outbox_.size());
    peer.from =
        mesh.pair(rank).createRecvBuffer(kExchangeSlot, peer.inbox.data(), peer.inbox.size());
    peer.to = mesh.pair(rank).createSendBuffer(kExchangeSlot, outbox_.data(), outbox_.size());
  }
}

void GlooExchange::send(int other, const Call& call, const ExchangePayload& payload) {
  const Head head{call, payload.sends, payload.expects};
  std::memcpy(outbox_.data(), &head, sizeof(head));
  if (payload.bytes > 0) {
    std::memcpy(outbox_.data() + sizeof(head), payload.data, payload.bytes);
  }
  mesh_.turn_to(other);
  auto& to = *peers_[static_cast<std::size_t>(other)].to;
  to.send(0, sizeof(head) + payload.bytes);
  to.waitSend();
}

void GlooExchange::receive(int other) {
  mesh_.turn_to(other);
  peers_[static_cast<std::size_t>(other)].from->waitRecv();
}

std::optional<int> GlooExchange::run(const Call& call,
                                     const std::vector<ExchangePayload>& payloads) {
  const int size = mesh_.size();
  for (int step = 1; step < size; ++step) {
    const int other = (mesh_.rank() + step) % size;
    send(other, call, payloads[static_cast<std::size_t>(other)]);
  }
  for (int step = 1; step < size; ++step) {
    const int other = (mesh_.rank() + size - step) % size;
    const ExchangePayload& payload = payloads[static_cast<std::size_t>(other)];
    receive(other);
    const Head head = head_of(other);
    if (head.call != call || head.sends != payload.expects || head.expects != payload.sends) {
      return other;
    }
  }
  return std::nullopt;
}

const char* GlooExchange::data_of(int rank) const {
  return peers_[static_cast<std::size_t>(rank)].inbox.data() + sizeof(Head);
}

GlooExchange::Head GlooExchange::head_of(int rank) const {
  Head head;
  std::memcpy(&head, peers_[static_cast<std::size_t>(rank)].inbox.data(), sizeof(head));
  return head;
}

Call GlooExchange::call_of(int rank) const {
  return head_of(rank).call;
}
std::uint64_t GlooExchange::sends_of(int rank) const {
  return head_of(rank).sends;
}
std::uint64_t GlooExchange::expects_of(int rank) const {
  return head_of(rank).expects;
}

}  // namespace ddp::internal
