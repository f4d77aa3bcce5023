// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store_gate.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

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
  const auto [first, end] = lines_at_.equal_range(address);
  for (auto at = first; at != end; ++at) {
    Line& line = lines_.at(at->second);
    add_question(line, number);
    ask(at->second, line, actions);
  }
  refuse_if_denied(number, actions);
  return actions;
}

StoreGate::Actions StoreGate::line_opened(ConnectionId id, std::string address) {
  const auto lost = std::find_if(lost_lines_.begin(), lost_lines_.end(),
                                 [&](const LostLine& line) { return line.address == address; });
  if (lost != lost_lines_.end()) lost_lines_.erase(lost);
  lines_at_.emplace(address, id);
  Line& line = lines_[id];
  line.address = std::move(address);
  for (const auto& [number, waiting] : waiting_) {
    if (waiting.ends.from == line.address) add_question(line, number);
  }
  std::sort(line.to_ask.begin(), line.to_ask.end());  // who came first is asked about first
  Actions actions;
  ask(id, line, actions);
  return actions;
}

StoreGate::Actions StoreGate::line_closed(ConnectionId id, Time now) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return {};
  const Line line = std::move(found->second);
  lines_.erase(found);
  const auto [first, end] = lines_at_.equal_range(line.address);
  lines_at_.erase(std::find_if(first, end, [id](const auto& at) { return at.second == id; }));
  lost_lines_.push_back({line.address, now});
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
  const auto recent = std::find_if(lost_lines_.begin(), lost_lines_.end(), [&](const auto& line) {
    return now - line.since < return_limit_;
  });
  if (recent == lost_lines_.begin()) return {};
  lost_lines_.erase(lost_lines_.begin(), recent);
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
  if (questions > 0 || may_be_back(ends.from)) return;
  const bool asked = lines_at_.contains(ends.from);
  actions.emplace_back(Refuse{number, asked
                                          ? "no process of the job's user there has this connection"
                                          : "no node of the job is at that address"});
  waiting_.erase(found);
}

bool StoreGate::may_be_back(const std::string& address) const {
  return std::any_of(lost_lines_.begin(), lost_lines_.end(),
                     [&](const LostLine& line) { return line.address == address; });
}

}  // namespace ddprun::rendezvous
