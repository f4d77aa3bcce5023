// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store_gate.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ddprun::rendezvous {
namespace {

bool has(const std::vector<std::string>& addresses, const std::string& wanted) {
  return std::find(addresses.begin(), addresses.end(), wanted) != addresses.end();
}

}  // namespace

Entry entry(StoreGuests guests, bool is_from_here, SocketOwner::Kind owner) {
  using Kind = SocketOwner::Kind;
  if (guests == StoreGuests::everyone || owner == Kind::ours) return Entry::admit;
  if (guests == StoreGuests::own_user) {
    const bool closed = owner == Kind::none && is_from_here;
    return closed || owner == Kind::foreign ? Entry::refuse : Entry::admit;
  }
  return owner == Kind::unknown && is_from_here ? Entry::admit : Entry::ask;
}

StoreGate::Actions StoreGate::arrived(Number number, SocketEnds ends) {
  const std::string address = ends.from;
  waiting_.insert_or_assign(number, Waiting{std::move(ends)});
  Actions actions;
  for (const ConnectionId id : lines_to_ask(address)) {
    Line& line = lines_.at(id);
    add_question(line, number);
    ask(id, line, actions);
  }
  refuse_if_denied(number, actions);
  return actions;
}

StoreGate::Actions StoreGate::line_opened(ConnectionId id, std::string address,
                                          const std::vector<std::string>& told) {
  lines_from_.emplace(address, id);
  Line& line = lines_[id];
  line.addresses.push_back(std::move(address));
  for (const std::string& other : told) {
    if (has(line.addresses, other)) continue;
    lines_told_.emplace(other, id);
    line.addresses.push_back(other);
  }
  const auto lost = std::find_if(lost_lines_.begin(), lost_lines_.end(), [&](const auto& each) {
    return each.addresses == line.addresses;
  });
  if (lost != lost_lines_.end()) forget(lost);
  for (const auto& [number, waiting] : waiting_) {
    const std::string& from = waiting.ends.from;
    const bool is_own = from == line.addresses.front();
    const bool is_told = waiting.questions < kMostTold && has(line.addresses, from);
    if (is_own || is_told) add_question(line, number);
  }
  std::sort(line.to_ask.begin(), line.to_ask.end());  // who came first is asked about first
  Actions actions;
  ask(id, line, actions);
  return actions;
}

StoreGate::Actions StoreGate::line_closed(ConnectionId id, Time now) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return {};
  Line line = std::move(found->second);
  lines_.erase(found);
  lines_from_.erase({line.addresses.front(), id});
  for (std::size_t i = 1; i < line.addresses.size(); ++i) {
    lines_told_.erase({line.addresses[i], id});
  }
  for (const std::string& address : line.addresses) ++lost_at_[address];
  lost_lines_.push_back({std::move(line.addresses), now});
  for (const auto* numbers : {&line.asked, &line.to_ask}) {
    for (const Number number : *numbers) {
      const auto waiting = waiting_.find(number);
      if (waiting != waiting_.end()) --waiting->second.questions;
    }
  }
  return {};
}

StoreGate::Actions StoreGate::answered(ConnectionId id, const std::vector<bool>& ours) {
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
      waiting_.erase(waiting);
    } else {
      refuse_if_denied(asked[i], actions);
    }
  }
  ask(id, found->second, actions);
  return actions;
}

StoreGate::Actions StoreGate::tick(Time now) {
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

std::optional<StoreGate::Time> StoreGate::deadline() const {
  if (lost_lines_.empty()) return std::nullopt;
  return lost_lines_.front().since + return_limit_;
}

void StoreGate::add_question(Line& line, Number number) {
  line.to_ask.push_back(number);
  ++waiting_.at(number).questions;
}

/// What has come since its last question, if that is answered.
void StoreGate::ask(ConnectionId id, Line& line, Actions& actions) {
  if (!line.asked.empty()) return;
  std::vector<SocketEnds> connections;
  std::size_t taken = 0;
  for (; taken < line.to_ask.size() && connections.size() < kMostAsked; ++taken) {
    const auto waiting = waiting_.find(line.to_ask[taken]);
    if (waiting == waiting_.end()) continue;
    connections.push_back(waiting->second.ends);
    line.asked.push_back(line.to_ask[taken]);
  }
  line.to_ask.erase(line.to_ask.begin(), line.to_ask.begin() + static_cast<std::ptrdiff_t>(taken));
  if (!connections.empty()) actions.emplace_back(Ask{id, std::move(connections)});
}

void StoreGate::refuse_if_denied(Number number, Actions& actions) {
  const auto found = waiting_.find(number);
  const auto& [ends, questions] = found->second;
  if (questions > 0 || lost_at_.contains(ends.from)) return;
  actions.emplace_back(Refuse{number, lines_to_ask(ends.from).empty()
                                          ? "no node of the job is at that address"
                                          : "no process of the job's user there has this "
                                            "connection"});
  waiting_.erase(found);
}

std::vector<ConnectionId> StoreGate::lines_to_ask(const std::string& address) const {
  std::vector<ConnectionId> lines;
  add_lines_at(address, lines_from_, SIZE_MAX, lines);
  add_lines_at(address, lines_told_, lines.size() + kMostTold, lines);
  return lines;
}

/// Until there are `most`.
void StoreGate::add_lines_at(const std::string& address, const LinesAt& lines, std::size_t most,
                             std::vector<ConnectionId>& to) {
  for (auto at = lines.lower_bound({address, 0}); at != lines.end() && at->first == address; ++at) {
    if (to.size() == most) return;
    to.push_back(at->second);
  }
}

/// It is back, or will not be. Returns the next one.
StoreGate::LostLines::iterator StoreGate::forget(LostLines::iterator lost) {
  for (const std::string& address : lost->addresses) {
    const auto count = lost_at_.find(address);
    if (--count->second == 0) lost_at_.erase(count);
  }
  return lost_lines_.erase(lost);
}

}  // namespace ddprun::rendezvous
