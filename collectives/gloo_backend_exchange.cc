// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_exchange.h"

#include <cstring>
#include <utility>

#include <gloo/transport/pair.h>

namespace ddp::internal {
namespace {

constexpr int kSlot = 0;

}  // namespace

GlooExchange::GlooExchange(std::shared_ptr<gloo::rendezvous::Context> context)
    : context_(std::move(context)),
      outbox_(sizeof(Call) + kLimit),
      peers_(static_cast<std::size_t>(context_->size)) {
  for (int rank = 0; rank < context_->size; ++rank) {
    if (rank == context_->rank) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    auto& pair = context_->getPair(rank);
    peer.inbox.resize(outbox_.size());
    peer.from = pair->createRecvBuffer(kSlot, peer.inbox.data(), peer.inbox.size());
    peer.to = pair->createSendBuffer(kSlot, outbox_.data(), outbox_.size());
    pair->setSync(true, false);
  }
}

std::optional<int> GlooExchange::run(const Call& call, std::string_view data) {
  std::memcpy(outbox_.data(), &call, sizeof(call));
  if (!data.empty()) std::memcpy(outbox_.data() + sizeof(call), data.data(), data.size());
  const int size = context_->size;
  for (int step = 1; step < size; ++step) {
    partner_ = (context_->rank + step) % size;
    auto& to = *peers_[static_cast<std::size_t>(partner_)].to;
    to.send(0, sizeof(call) + data.size());
    to.waitSend();
  }
  for (int step = 1; step < size; ++step) {
    partner_ = (context_->rank + size - step) % size;
    peers_[static_cast<std::size_t>(partner_)].from->waitRecv();
    if (call_of(partner_) != call) return partner_;
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
