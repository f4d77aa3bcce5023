// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/call_exchange.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace ddp::internal {

CpuCallExchange::CpuCallExchange(const GroupContext& context, CpuMesh& mesh)
    : context_(context), mesh_(mesh), peers_(static_cast<std::size_t>(mesh.size())) {}

CpuCallExchange::Peer& CpuCallExchange::peer(int rank) {
  auto& peer = peers_[static_cast<std::size_t>(rank)];
  if (!peer) peer = std::make_unique<Peer>();
  return *peer;
}

void CpuCallExchange::check(int rank) {
  const Announced& ours = peer(rank).ours.announced;
  check_fits(context_, ours.call, ours, peer(rank).theirs.announced, rank);
}

void CpuCallExchange::run(const CpuPart& part, const Call& call,
                          const std::vector<ExchangePayload>& payloads) {
  sending_.clear();
  receiving_.clear();
  for (int step = 1; step < part.size(); ++step) {
    const int next = part.after(step);
    sending_.push_back(to(part.at(next), call, payloads[static_cast<std::size_t>(next)]));
    receiving_.push_back(from(part.at(part.before(step)), kLimit));
  }
  mesh_.move(sending_, receiving_);
  for (int step = 1; step < part.size(); ++step) check(part.at(part.before(step)));
}

void CpuCallExchange::run_in_steps(const CpuPart& part, const Call& call) {
  for (int step = 1; step < part.size(); step *= 2) {
    const int next = part.at(part.after(step));
    mesh_.swap(to(part.at(part.before(step)), call, {}), from(next, 0));
    const Announced ours{.call = call};
    check_fits(context_, call, ours, peer(next).theirs.announced, next);
  }
}

CpuMesh::Sending CpuCallExchange::to(int rank, const Call& call, const ExchangePayload& payload) {
  Peer& peer = this->peer(rank);
  peer.ours = {{call, payload.counts}, payload.bytes};
  return {.rank = rank,
          .parts = {std::span(reinterpret_cast<const char*>(&peer.ours), sizeof(Header)),
                    std::span(payload.data, payload.bytes)}};
}

/// Receives the header, which says how much data follows; then at most `most` bytes of data.
CpuMesh::Receiving CpuCallExchange::from(int rank, std::size_t most) {
  Peer& peer = this->peer(rank);
  peer.most = most;
  if (peer.received.size() < sizeof(Header) + most) peer.received.resize(sizeof(Header) + most);
  return {
      .rank = rank, .data = peer.received.data(), .bytes = sizeof(Header), .more = [&peer, rank] {
        std::memcpy(&peer.theirs, peer.received.data(), sizeof(Header));
        if (peer.theirs.bytes > kLimit) throw PeerLost(rank, "it sent an invalid message");
        return std::min(peer.most, static_cast<std::size_t>(peer.theirs.bytes));
      }};
}

const char* CpuCallExchange::data_of(int rank) const {
  return peers_[static_cast<std::size_t>(rank)]->received.data() + sizeof(Header);
}

}  // namespace ddp::internal
