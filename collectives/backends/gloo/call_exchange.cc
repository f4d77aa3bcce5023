// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/call_exchange.h"

#include <cstring>

namespace ddp::internal {
namespace {

constexpr int kExchangeSlot = 0;

}  // namespace

GlooCallExchange::GlooCallExchange(GlooMesh& mesh)
    : mesh_(mesh),
      to_send_(sizeof(Header) + kLimit),
      peers_(static_cast<std::size_t>(mesh.size())) {
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (rank == mesh.rank()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.received.resize(to_send_.size());
    peer.recv_buffer =
        mesh.pair(rank).createRecvBuffer(kExchangeSlot, peer.received.data(), peer.received.size());
    peer.send_buffer =
        mesh.pair(rank).createSendBuffer(kExchangeSlot, to_send_.data(), to_send_.size());
  }
}

void GlooCallExchange::send(int other, const Call& call, const ExchangePayload& payload) {
  const Header header{call, payload.sends, payload.expects};
  std::memcpy(to_send_.data(), &header, sizeof(header));
  if (payload.bytes > 0) {
    std::memcpy(to_send_.data() + sizeof(header), payload.data, payload.bytes);
  }
  mesh_.set_partner(other);
  auto& buffer = *peers_[static_cast<std::size_t>(other)].send_buffer;
  buffer.send(0, sizeof(header) + payload.bytes);
  buffer.waitSend();
}

void GlooCallExchange::receive(int other) {
  mesh_.set_partner(other);
  peers_[static_cast<std::size_t>(other)].recv_buffer->waitRecv();
}

std::optional<int> GlooCallExchange::run(const GlooPart& part, const Call& call,
                                         const std::vector<ExchangePayload>& payloads) {
  for (int step = 1; step < part.size(); ++step) {
    const int to = part.after(step);
    send(part.at(to), call, payloads[static_cast<std::size_t>(to)]);
  }
  for (int step = 1; step < part.size(); ++step) {
    const int from = part.before(step);
    const ExchangePayload& payload = payloads[static_cast<std::size_t>(from)];
    receive(part.at(from));
    const Header header = header_of(part.at(from));
    if (header.call != call || header.sends != payload.expects || header.expects != payload.sends) {
      return from;
    }
  }
  return std::nullopt;
}

const char* GlooCallExchange::data_of(int rank) const {
  return peers_[static_cast<std::size_t>(rank)].received.data() + sizeof(Header);
}

GlooCallExchange::Header GlooCallExchange::header_of(int rank) const {
  Header header;
  std::memcpy(&header, peers_[static_cast<std::size_t>(rank)].received.data(), sizeof(header));
  return header;
}

Call GlooCallExchange::call_of(int rank) const {
  return header_of(rank).call;
}
std::uint64_t GlooCallExchange::sends_of(int rank) const {
  return header_of(rank).sends;
}
std::uint64_t GlooCallExchange::expects_of(int rank) const {
  return header_of(rank).expects;
}

}  // namespace ddp::internal
