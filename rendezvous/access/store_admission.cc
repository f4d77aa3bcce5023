// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/store_admission.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace ddprun::rendezvous {
namespace {

bool has(const std::vector<std::string>& addresses, const std::string& wanted) {
  return std::find(addresses.begin(), addresses.end(), wanted) != addresses.end();
}

}  // namespace

Entry entry(StoreAccess access, bool is_from_here, SocketOwner::Kind owner) {
  using Kind = SocketOwner::Kind;
  if (access == StoreAccess::everyone || owner == Kind::ours) return Entry::admit;
  if (access == StoreAccess::own_user) {
    const bool closed = owner == Kind::none && is_from_here;
    return closed || owner == Kind::foreign ? Entry::refuse : Entry::admit;
  }
  return owner == Kind::unknown && is_from_here ? Entry::admit : Entry::ask;
}

StoreAdmission::Actions StoreAdmission::arrived(Number number, SocketEnds ends) {
  const std::string address = ends.from;
  waiting_.insert_or_assign(number, Waiting{std::move(ends)});
  waiting_at_[address].insert(number);
  Actions actions;
  for (const ConnectionId id : lines_to_ask(address)) {
    Line& line = lines_.at(id);
    add_question(line, number);
    ask(id, line, actions);
  }
  refuse_if_denied(number, actions);
  return actions;
}

StoreAdmission::Actions StoreAdmission::line_opened(ConnectionId id, std::string address,
                                                    const std::vector<std::string>& others) {
  lines_from_.emplace(address, id);
  Line& line = lines_[id];
  line.addresses.push_back(std::move(address));
  for (const std::string& other : others) {
    if (has(line.addresses, other)) continue;
    lines_by_other_.emplace(other, id);
    line.addresses.push_back(other);
  }
  forget_lost(line.addresses);
  for (const std::string& from : line.addresses) {
    const auto here = waiting_at_.find(from);
    if (here == waiting_at_.end()) continue;
    const bool is_own = from == line.addresses.front();
    for (const Number number : here->second) {
      if (is_own || waiting_.at(number).questions < kMostByOther) add_question(line, number);
    }
  }
  Actions actions;
  ask(id, line, actions);
  return actions;
}

StoreAdmission::Actions StoreAdmission::line_closed(ConnectionId id, Time now) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return {};
  Line line = std::move(found->second);
  lines_.erase(found);
  lines_from_.erase({line.addresses.front(), id});
  for (std::size_t i = 1; i < line.addresses.size(); ++i) {
    lines_by_other_.erase({line.addresses[i], id});
  }
  for (const std::string& address : line.addresses) ++lost_at_[address];
  const std::string own = line.addresses.front();
  lost_lines_.push_back({std::move(line.addresses), now});
  lost_from_.emplace(own, std::prev(lost_lines_.end()));
  const auto take_back = [this](Number number) {
    const auto waiting = waiting_.find(number);
    if (waiting != waiting_.end()) --waiting->second.questions;
  };
  std::for_each(line.asked.begin(), line.asked.end(), take_back);
  std::for_each(line.to_ask.begin(), line.to_ask.end(), take_back);
  return {};
}

void StoreAdmission::left(Number number) {
  if (waiting_.contains(number)) take_out(number);
}

void StoreAdmission::clear() {
  waiting_.clear();
  waiting_at_.clear();
  for (auto& [id, line] : lines_) line.to_ask.clear();
}

/// Ends a connection's wait: no node has to be asked about it.
void StoreAdmission::take_out(Number number) {
  const auto waiting = waiting_.extract(number);
  const std::string& from = waiting.mapped().ends.from;
  for (const ConnectionId id : lines_to_ask(from)) lines_.at(id).to_ask.erase(number);
  const auto here = waiting_at_.find(from);
  here->second.erase(number);
  if (here->second.empty()) waiting_at_.erase(here);
}

StoreAdmission::Actions StoreAdmission::answered(ConnectionId id, const std::vector<bool>& ours) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return {};
  Actions actions;
  const std::vector<Number> asked = std::exchange(found->second.asked, {});
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto waiting = waiting_.find(asked[i]);
    if (waiting == waiting_.end()) continue;
    --waiting->second.questions;
    if (ours.size() == asked.size() && ours[i]) {
      actions.emplace_back(Admit{asked[i]});
      take_out(asked[i]);
    } else {
      refuse_if_denied(asked[i], actions);
    }
  }
  ask(id, found->second, actions);
  return actions;
}

StoreAdmission::Actions StoreAdmission::tick(Time now) {
  const std::size_t before = lost_lines_.size();
  auto lost = lost_lines_.begin();
  while (lost != lost_lines_.end() && now - lost->since >= return_limit_) lost = forget(lost);
  if (lost_lines_.size() == before) return {};
  std::vector<Number> numbers;
  for (const auto& [number, waiting] : waiting_) numbers.push_back(number);
  Actions actions;
  for (const Number number : numbers) refuse_if_denied(number, actions);
  return actions;
}

std::optional<StoreAdmission::Time> StoreAdmission::deadline() const {
  if (lost_lines_.empty()) return std::nullopt;
  return lost_lines_.front().since + return_limit_;
}

void StoreAdmission::add_question(Line& line, Number number) {
  line.to_ask.insert(number);
  ++waiting_.at(number).questions;
}

/// Asks about the connections that came after the last question, if that is answered.
void StoreAdmission::ask(ConnectionId id, Line& line, Actions& actions) {
  if (!line.asked.empty()) return;
  std::vector<SocketEnds> connections;
  while (!line.to_ask.empty() && connections.size() < kMostAsked) {
    const Number number = line.to_ask.extract(line.to_ask.begin()).value();
    const auto waiting = waiting_.find(number);
    if (waiting == waiting_.end()) continue;
    connections.push_back(waiting->second.ends);
    line.asked.push_back(number);
  }
  if (!connections.empty()) actions.emplace_back(Ask{id, std::move(connections)});
}

void StoreAdmission::refuse_if_denied(Number number, Actions& actions) {
  const auto found = waiting_.find(number);
  const auto& [ends, questions] = found->second;
  if (questions > 0 || lost_at_.contains(ends.from)) return;
  actions.emplace_back(Refuse{number, lines_to_ask(ends.from).empty()
                                          ? "no node of the job is at that address"
                                          : "no process of the job's user there has this "
                                            "connection"});
  take_out(number);
}

std::vector<ConnectionId> StoreAdmission::lines_to_ask(const std::string& address) const {
  std::vector<ConnectionId> lines;
  add_lines_at(address, lines_from_, SIZE_MAX, lines);
  add_lines_at(address, lines_by_other_, lines.size() + kMostByOther, lines);
  return lines;
}

/// Adds lines until `to` has `most`.
void StoreAdmission::add_lines_at(const std::string& address, const LinesAt& lines,
                                  std::size_t most, std::vector<ConnectionId>& to) {
  for (auto at = lines.lower_bound({address, 0}); at != lines.end() && at->first == address; ++at) {
    if (to.size() == most) return;
    to.push_back(at->second);
  }
}

/// Forgets a line that is back, or will not come back. Returns the next one.
StoreAdmission::LostLines::iterator StoreAdmission::forget(LostLines::iterator lost) {
  for (const std::string& address : lost->addresses) {
    const auto count = lost_at_.find(address);
    if (--count->second == 0) lost_at_.erase(count);
  }
  const auto [first, last] = lost_from_.equal_range(lost->addresses.front());
  lost_from_.erase(
      std::find_if(first, last, [&](const auto& each) { return each.second == lost; }));
  return lost_lines_.erase(lost);
}

/// Forgets one line that was lost at these addresses, if there is one.
void StoreAdmission::forget_lost(const std::vector<std::string>& addresses) {
  const auto [first, last] = lost_from_.equal_range(addresses.front());
  const auto same = std::find_if(
      first, last, [&](const auto& each) { return each.second->addresses == addresses; });
  if (same != last) forget(same->second);
}

}  // namespace ddprun::rendezvous
