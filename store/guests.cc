// SPDX-License-Identifier: Apache-2.0
#include "store/guests.h"

#include <algorithm>
#include <limits>

namespace ddprun::store {
namespace {

constexpr std::size_t kMostReserved = 1'024;
constexpr std::size_t kMostUnproven = 16'384;
constexpr std::size_t kMostGreeted = 1'024;

}  // namespace

GuestLimits GuestLimits::of(std::size_t descriptors) {
  const std::size_t connections = descriptors - std::min(descriptors / 4, kMostReserved);
  const std::size_t half = std::max<std::size_t>(connections / 2, 1);
  return {connections, std::min(half, kMostUnproven), std::min(half, kMostGreeted)};
}

void Guests::add_home(Site site) {
  if (homes_.insert(site).second) change(site, [](Group& group) { ++group.members; });
}

Guests::Id Guests::add(Site site) {
  const Id id = next_id_++;
  change(site, [&](Group& group) {
    const auto place = group.unproven.insert(group.unproven.end(), id);
    all_.emplace(id, Connection{site, Standing::unproven, now_, place, {}, {}});
  });
  return id;
}

void Guests::remove(Id id) {
  Connection& connection = all_.at(id);
  change(connection.site, [&](Group& group) { leave(group, connection); });
  all_.erase(id);
}

void Guests::on_eviction(Id id, std::function<void()> close) {
  all_.at(id).close = std::move(close);
}

void Guests::set_greeted(Id id) {
  Connection& connection = all_.at(id);
  connection.standing = Standing::greeted;
  connection.since = now_;
  connection.greeted_place = greeted_.insert(greeted_.end(), id);
}

void Guests::set_client(Id id) {
  prove(id, Standing::client);
}

void Guests::set_member(Id id) {
  prove(id, Standing::member);
}

void Guests::prove(Id id, Standing standing) {
  Connection& connection = all_.at(id);
  change(connection.site, [&](Group& group) {
    leave(group, connection);
    connection.standing = standing;
    if (standing == Standing::member) ++group.members;
    if (standing == Standing::client) {
      connection.place = group.clients.insert(group.clients.end(), id);
    }
  });
}

// Afterwards the group of its site does not count it.
void Guests::leave(Group& group, Connection& connection) {
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

std::optional<Guests::Id> Guests::in_the_way() const {
  if (greeted_.size() > limits_.greeted) return greeted_.front();
  if (excess_ >= limits_.unproven) return oldest_excess();
  if (all_.size() >= limits_.connections) return least_wanted();
  return std::nullopt;
}

std::optional<Guests::Id> Guests::least_wanted() const {
  if (by_size_.empty()) {
    const auto oldest = oldest_excess();
    const bool fresh = oldest && all_.at(*oldest).since == now_;
    return fresh ? std::nullopt : oldest;  // it may be a worker that is about to send
  }
  const Group& group = groups_.at(by_size_.rbegin()->site);
  return group.unproven.empty() ? group.clients.back() : group.unproven.front();
}

std::optional<Guests::Id> Guests::oldest_excess() const {
  if (by_excess_.empty()) return std::nullopt;
  return groups_.at(by_excess_.rbegin()->site).unproven.front();
}

std::vector<Guests::Id> Guests::tick() {
  ++now_;
  std::vector<Id> overdue;
  for (const Id id : greeted_) {
    if (now_ - all_.at(id).since >= kGreetedTicks) overdue.push_back(id);
  }
  for (const Rank& rank : by_excess_) {
    std::size_t most = rank.number;
    for (const Id id : groups_.at(rank.site).unproven) {
      const Connection& connection = all_.at(id);
      if (most-- == 0 || now_ - connection.since < kUnprovenTicks) break;
      if (connection.standing == Standing::unproven) overdue.push_back(id);
    }
  }
  return overdue;
}

void Guests::evict(Id id) {
  const auto close = std::move(all_.at(id).close);
  if (close) close();
}

// Every change of a group goes through here, which keeps the ranks right.
template <class Change>
void Guests::change(Site site, Change change) {
  const auto found = groups_.try_emplace(site).first;
  Group& group = found->second;
  unrank(site, group);
  change(group);
  rank(site, group);
  if (group.size() == 0) groups_.erase(found);
}

void Guests::unrank(Site site, const Group& group) {
  excess_ -= group.excess();
  by_excess_.erase(excess_rank(site, group));
  by_size_.erase(size_rank(site, group));
}

void Guests::rank(Site site, const Group& group) {
  excess_ += group.excess();
  if (group.excess() > 0) by_excess_.insert(excess_rank(site, group));
  if (group.members == 0 && group.size() > 0) by_size_.insert(size_rank(site, group));
}

Guests::Rank Guests::excess_rank(Site site, const Group& group) {
  const Id oldest = group.unproven.empty() ? 0 : group.unproven.front();
  return {group.excess(), std::numeric_limits<Id>::max() - oldest, site};
}

Guests::Rank Guests::size_rank(Site site, const Group& group) {
  return {group.size(), 0, site};
}

Guest::Guest(std::shared_ptr<Guests> guests, Site site)
    : guests_(std::move(guests)), id_(guests_->add(site)) {}

Guest& Guest::operator=(Guest&& other) noexcept {
  release();
  guests_ = std::move(other.guests_);
  id_ = other.id_;
  proven_ = other.proven_;
  return *this;
}

Guest::~Guest() {
  release();
}

void Guest::release() {
  if (guests_) guests_->remove(id_);
  guests_.reset();
}

void Guest::on_eviction(std::function<void()> close) {
  if (guests_) guests_->on_eviction(id_, std::move(close));
}

void Guest::is_greeted() {
  if (guests_) guests_->set_greeted(id_);
}

void Guest::is_client() {
  if (guests_ && !std::exchange(proven_, true)) guests_->set_client(id_);
}

void Guest::is_member() {
  if (guests_ && !std::exchange(proven_, true)) guests_->set_member(id_);
}

}  // namespace ddprun::store
