// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/node_losses.h"

#include <algorithm>
#include <chrono>

namespace ddprun::rendezvous {
namespace {

using Clock = NodeLosses::Clock;

/// A node that stays for longer has recovered.
constexpr std::chrono::minutes kSoon{10};
constexpr std::chrono::seconds kFirstHold{1};
constexpr std::chrono::minutes kLongestHold{5};

/// The records of hosts that were lost for good, or were never real, are forgotten.
constexpr std::chrono::hours kMemory{1};

std::string name_of(const JoinRequest& request) {
  return request.host + (request.node_rank ? "\n" + std::to_string(*request.node_rank) : "");
}

Clock::duration hold_after(int losses) {
  Clock::duration hold = losses < 2 ? Clock::duration::zero() : kFirstHold;
  for (int i = 2; i < losses && hold < kLongestHold; ++i) hold *= 2;
  return std::min<Clock::duration>(hold, kLongestHold);
}

}  // namespace

Clock::duration NodeLosses::joined(NodeId node, const JoinRequest& request, Time now) {
  const std::string name = name_of(request);
  present_.insert_or_assign(node, Present{name, now, ++order_});
  const auto record = records_.find(name);
  if (record == records_.end()) return Clock::duration::zero();
  const Time until = record->second.lost + hold_after(record->second.losses);
  return std::max(until - now, Clock::duration::zero());
}

int NodeLosses::lost(NodeId node, Time now) {
  const auto found = present_.find(node);
  if (found == present_.end()) return 1;
  const Present present = found->second;
  present_.erase(found);
  forget_old(now);

  Record& record = records_[present.name];
  if (present.order < record.order) return 1;  // its host took several nodes with it
  const bool again = record.losses > 0 && now - present.joined <= kSoon;
  record = {again ? record.losses + 1 : 1, now, ++order_};
  losses_.emplace_back(now, present.name);
  return record.losses;
}

/// Looking at each record would take seconds if thousands of nodes are lost at once.
void NodeLosses::forget_old(Time now) {
  for (; !losses_.empty() && now - losses_.front().first > kMemory; losses_.pop_front()) {
    const auto record = records_.find(losses_.front().second);
    if (record != records_.end() && now - record->second.lost > kMemory) records_.erase(record);
  }
}

int NodeLosses::losses_before(NodeId node) const {
  const auto found = present_.find(node);
  if (found == present_.end()) return 0;
  const auto record = records_.find(found->second.name);
  return record == records_.end() ? 0 : record->second.losses;
}

}  // namespace ddprun::rendezvous
