// SPDX-License-Identifier: Apache-2.0
#include "store/connection_slots.h"

#include <algorithm>
#include <limits>

namespace ddprun::store {
namespace {

constexpr std::size_t kMostReserved = 1'024;
constexpr std::size_t kMostUnproven = 16'384;
constexpr std::size_t kMostGreeted = 1'024;

}  // namespace

ConnectionLimits ConnectionLimits::of(std::size_t descriptors) {
  const std::size_t connections = descriptors - std::min(descriptors / 4, kMostReserved);
  const std::size_t half = std::max<std::size_t>(connections / 2, 1);
  return {connections, std::min(half, kMostUnproven), std::min(half, kMostGreeted)};
}

void ConnectionSlots::add_own_network(SourceNetwork source) {
  if (own_networks_.insert(source).second) change(source, [](Group& group) { ++group.members; });
}

ConnectionSlots::Id ConnectionSlots::add(SourceNetwork source) {
  const Id id = next_id_++;
  change(source, [&](Group& group) {
    const auto place = group.unproven.insert(group.unproven.end(), id);
    all_.emplace(id, Connection{source, Standing::unproven, now_, place, {}, {}});
  });
  return id;
}

void ConnectionSlots::remove(Id id) {
  Connection& connection = all_.at(id);
  change(connection.source, [&](Group& group) { leave(group, connection); });
  all_.erase(id);
}

void ConnectionSlots::on_eviction(Id id, std::function<void()> close) {
  all_.at(id).close = std::move(close);
}

void ConnectionSlots::set_greeted(Id id) {
  Connection& connection = all_.at(id);
  connection.standing = Standing::greeted;
  connection.since = now_;
  connection.greeted_place = greeted_.insert(greeted_.end(), id);
}

void ConnectionSlots::set_client(Id id) {
  prove(id, Standing::client);
}

void ConnectionSlots::set_member(Id id) {
  prove(id, Standing::member);
}

void ConnectionSlots::prove(Id id, Standing standing) {
  Connection& connection = all_.at(id);
  change(connection.source, [&](Group& group) {
    leave(group, connection);
    connection.standing = standing;
    if (standing == Standing::member) ++group.members;
    if (standing == Standing::client) {
      connection.place = group.clients.insert(group.clients.end(), id);
    }
  });
}

// Afterwards the group of its source does not count it.
void ConnectionSlots::leave(Group& group, Connection& connection) {
  switch (connection.standing) {
    case Standing::greeted:
      greeted_.erase(connection.greeted_place);
      [[fallthrough]];
    case Standing::unproven:
      group.unproven.erase(connection.place);
      return;
    case Standing::client:
      group.clients.erase(connection.place);
      return;
    case Standing::member:
      --group.members;
  }
}

std::optional<ConnectionSlots::Id> ConnectionSlots::in_the_way() const {
  if (greeted_.size() > limits_.greeted) return greeted_.front();
  if (excess_ >= limits_.unproven) return oldest_excess();
  if (all_.size() >= limits_.connections) return least_wanted();
  return std::nullopt;
}

std::optional<ConnectionSlots::Id> ConnectionSlots::least_wanted() const {
  if (by_size_.empty()) {
    const auto oldest = oldest_excess();
    const bool fresh = oldest && all_.at(*oldest).since == now_;
    return fresh ? std::nullopt : oldest;  // it may be a worker that is about to send
  }
  const Group& group = groups_.at(by_size_.rbegin()->source);
  return group.unproven.empty() ? group.clients.back() : group.unproven.front();
}

std::optional<ConnectionSlots::Id> ConnectionSlots::oldest_excess() const {
  if (by_excess_.empty()) return std::nullopt;
  return groups_.at(by_excess_.rbegin()->source).unproven.front();
}

std::vector<ConnectionSlots::Id> ConnectionSlots::tick() {
  ++now_;
  std::vector<Id> overdue;
  for (const Id id : greeted_) {
    if (now_ - all_.at(id).since >= kGreetedTicks) overdue.push_back(id);
  }
  for (const Rank& rank : by_excess_) {
    std::size_t most = rank.number;
    for (const Id id : groups_.at(rank.source).unproven) {
      const Connection& connection = all_.at(id);
      if (most-- == 0 || now_ - connection.since < kUnprovenTicks) break;
      if (connection.standing == Standing::unproven) overdue.push_back(id);
    }
  }
  return overdue;
}

void ConnectionSlots::evict(Id id) {
  const auto close = std::move(all_.at(id).close);
  if (close) close();
}

// Every change of a group goes through here, which keeps the ranks right.
template <class Change>
void ConnectionSlots::change(SourceNetwork source, Change change) {
  const auto found = groups_.try_emplace(source).first;
  Group& group = found->second;
  unrank(source, group);
  change(group);
  rank(source, group);
  if (group.size() == 0) groups_.erase(found);
}

void ConnectionSlots::unrank(SourceNetwork source, const Group& group) {
  excess_ -= group.excess();
  by_excess_.erase(excess_rank(source, group));
  by_size_.erase(size_rank(source, group));
}

void ConnectionSlots::rank(SourceNetwork source, const Group& group) {
  excess_ += group.excess();
  if (group.excess() > 0) by_excess_.insert(excess_rank(source, group));
  if (group.members == 0 && group.size() > 0) by_size_.insert(size_rank(source, group));
}

ConnectionSlots::Rank ConnectionSlots::excess_rank(SourceNetwork source, const Group& group) {
  const Id oldest = group.unproven.empty() ? 0 : group.unproven.front();
  return {group.excess(), std::numeric_limits<Id>::max() - oldest, source};
}

ConnectionSlots::Rank ConnectionSlots::size_rank(SourceNetwork source, const Group& group) {
  return {group.size(), 0, source};
}

ConnectionSlot::ConnectionSlot(std::shared_ptr<ConnectionSlots> slots, SourceNetwork source)
    : slots_(std::move(slots)), id_(slots_->add(source)) {}

ConnectionSlot& ConnectionSlot::operator=(ConnectionSlot&& other) noexcept {
  release();
  slots_ = std::move(other.slots_);
  id_ = other.id_;
  proven_ = other.proven_;
  return *this;
}

ConnectionSlot::~ConnectionSlot() {
  release();
}

void ConnectionSlot::release() {
  if (slots_) slots_->remove(id_);
  slots_.reset();
}

void ConnectionSlot::on_eviction(std::function<void()> close) {
  if (slots_) slots_->on_eviction(id_, std::move(close));
}

void ConnectionSlot::is_greeted() {
  if (slots_) slots_->set_greeted(id_);
}

void ConnectionSlot::is_client() {
  if (slots_ && !std::exchange(proven_, true)) slots_->set_client(id_);
}

void ConnectionSlot::is_member() {
  if (slots_ && !std::exchange(proven_, true)) slots_->set_member(id_);
}

}  // namespace ddprun::store
