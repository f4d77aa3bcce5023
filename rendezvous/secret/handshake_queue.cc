// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/handshake_queue.h"

namespace ddprun::rendezvous {

void HandshakeQueue::add(store::Site site, Number number) {
  std::deque<Number>& others = waiting_[site];
  if (others.empty()) turns_.push_back(site);
  others.push_back(number);
}

std::optional<HandshakeQueue::Number> HandshakeQueue::next() {
  if (turns_.empty()) return std::nullopt;
  const store::Site site = turns_.front();
  turns_.pop_front();
  const auto found = waiting_.find(site);
  const Number number = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) {
    waiting_.erase(found);
  } else {
    turns_.push_back(site);
  }
  return number;
}

}  // namespace ddprun::rendezvous
