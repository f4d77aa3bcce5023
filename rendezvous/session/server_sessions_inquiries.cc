// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "rendezvous/session/server_sessions.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostOpen = 256;       // unanswered questions to one node
constexpr size_t kMostListedHost = 64;  // bytes of a host's name in a list

}  // namespace

void ServerSessions::take_inquiry(NodeId node, const Inquiry& inquiry, Time now) {
  if (const auto* list = std::get_if<ListNodes>(&inquiry)) {
    return list_nodes(*agents_.at(node).connection, list->after, now);
  }
  if (const auto* inquire = std::get_if<Inquire>(&inquiry)) return ask_node(node, *inquire);
  if (const auto* inform = std::get_if<Inform>(&inquiry)) return pass_answer(node, *inform);
  if (std::holds_alternative<StopJob>(inquiry)) stop_job();
}

void ServerSessions::list_nodes(ConnectionId to, NodeId after, Time now) {
  NodeList list;
  list.after = after;
  const Nodes& nodes = round_.nodes();
  auto next = nodes.upper_bound(after);
  for (; next != nodes.end() && list.nodes.size() < kMaxListed; ++next) {
    const Node& node = next->second;
    ListedNode& listed = list.nodes.emplace_back();
    listed.id = node.id;
    listed.host = cut(printable(node.request.host), kMostListedHost);
    listed.state = state_text(node.state);
    listed.node_rank = node.node_rank.value_or(-1);
    listed.first_rank = node.first_rank;
    listed.local_size = node.request.local_size;
    const auto silent = now - evictions_.last_received(node.id, now);
    listed.silent = std::max(0.0, std::chrono::duration<double>(silent).count());
    const auto agent = agents_.find(node.id);
    listed.connected = agent != agents_.end() && agent->second.connection.has_value();
  }
  list.more = next != nodes.end();
  if (round_.phase() != Round::Phase::active) list.waiting = waiting_for(now);
  send(to, Inquiry(std::move(list)));
}

void ServerSessions::ask_node(NodeId asker, const Inquire& inquire) {
  const auto found = agents_.find(inquire.node);
  if (found == agents_.end() || !found->second.connection) {
    return send(*agents_.at(asker).connection, Inquiry(Informed{inquire.number, inquire.node, ""}));
  }
  Agent& agent = found->second;
  if (agent.asked.size() >= kMostOpen) agent.asked.pop_front();
  agent.asked.emplace_back(asker, inquire.number);
  send(*agent.connection, Inquiry(Inquired{asker, inquire.number, inquire.question}));
}

/// Passes on an answer only if the node was asked.
void ServerSessions::pass_answer(NodeId node, const Inform& inform) {
  auto& asked = agents_.at(node).asked;
  const auto question = std::ranges::find(asked, std::pair(inform.asker, inform.number));
  if (question == asked.end()) return;
  asked.erase(question);
  const auto asker = agents_.find(inform.asker);
  if (asker == agents_.end() || !asker->second.connection) return;
  send(*asker->second.connection, Inquiry(Informed{inform.number, node, inform.answer}));
}

void ServerSessions::stop_job() {
  if (std::exchange(stop_asked_, true)) return;
  const auto shared = std::make_shared<const Reply>(Inquiry(StopJob{}));
  for (const auto& [node, agent] : agents_) {
    if (agent.connection) act(server_action::Send{*agent.connection, shared});
  }
}

}  // namespace ddprun::rendezvous
