// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/lease.h"

namespace ddprun::rendezvous {

std::optional<Lease::Time> Lease::heartbeat_answered() {
  if (unanswered_.empty()) return std::nullopt;
  const Time sent = unanswered_.front();
  unanswered_.pop_front();
  return sent;
}

std::optional<Lease::Time> Lease::end(Time sent) const {
  if (length_ == milliseconds::zero()) return std::nullopt;
  return sent + length_;
}

void EvictionQueue::add(NodeId node, Time now) {
  entries_[node] = order_.insert(order_.end(), {node, now});
}

void EvictionQueue::remove(NodeId node) {
  const auto found = entries_.find(node);
  if (found == entries_.end()) return;
  order_.erase(found->second);
  entries_.erase(found);
}

void EvictionQueue::received(NodeId node, Time now) {
  const auto found = entries_.find(node);
  if (found == entries_.end()) return;
  found->second->received = now;
  order_.splice(order_.end(), order_, found->second);
}

EvictionQueue::Time EvictionQueue::last_received(NodeId node, Time now) const {
  const auto found = entries_.find(node);
  return found == entries_.end() ? now : found->second->received;
}

void EvictionQueue::all_received(Time now) {
  for (Entry& entry : order_) entry.received = now;
}

std::optional<EvictionQueue::Time> EvictionQueue::next() const {
  if (order_.empty()) return std::nullopt;
  return order_.front().received + timeout_;
}

std::optional<EvictionQueue::Overdue> EvictionQueue::overdue(Time now) const {
  if (order_.empty() || order_.front().received + timeout_ > now) return std::nullopt;
  return Overdue{order_.front().node, now - order_.front().received};
}

}  // namespace ddprun::rendezvous
