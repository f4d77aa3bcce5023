// SPDX-License-Identifier: Apache-2.0
// ServerSessions between agents and Round: which messages reach Round, when, and its notifications.
#include <algorithm>

#include "base/text.h"
#include "rendezvous/membership_text.h"
#include "rendezvous/round/admission.h"
#include "rendezvous/session/server_sessions.h"

namespace ddprun::rendezvous {
namespace {

/// The most unacknowledged notifications of an agent, which acknowledges with each heartbeat.
constexpr size_t kMaxUnacked = 1024;

/// The reason for which a restarted node waits.
constexpr const char* kPredecessor =
    "the end of the lease of the ddprun that had this node_rank before (--lease)";

/// Whether end_stalled_round() made this failure, of the whole round, and not a node.
bool is_hang(const Message& message) {
  const auto* fail = std::get_if<message::Fail>(&message);
  return fail != nullptr && fail->failure.hung;
}

/// Makes the replies with the notifications of one event. Every Broken among them is the same, and
/// so is every Closed and every Stalled: thousands of nodes may get it, so it is made once.
class ReplyMaker {
 public:
  std::shared_ptr<const Reply> make(Notification notification) {
    const size_t kind = notification.index();
    const bool common = std::holds_alternative<Broken>(notification) ||
                        std::holds_alternative<Closed>(notification) ||
                        std::holds_alternative<Stalled>(notification);
    if (common && kind == kind_) return common_;
    auto made = std::make_shared<const Reply>(std::move(notification));
    if (common) {
      kind_ = kind;
      common_ = made;
    }
    return made;
  }

 private:
  size_t kind_ = std::variant_npos;
  std::shared_ptr<const Reply> common_;
};

}  // namespace

// Messages to Round, and its notifications.

void ServerSessions::take_message(NodeId node, const Message& message, Time now) {
  Agent& agent = agents_.at(node);
  evictions_.received(node, now);
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    agent.delivery.ack(heartbeat->received);
    return send(*agent.connection, Heartbeat{agent.delivery.received()});
  }
  if (std::holds_alternative<message::Ask>(message)) {
    return send(*agent.connection, reply::Waiting{waiting_for(node, now)});
  }
  if (const auto* owned = std::get_if<message::Owned>(&message)) {
    return act(server_action::Owned{*agent.connection, owned->ours});
  }
  if (const auto* gone = std::get_if<message::Gone>(&message)) return take_gone(node, *gone, now);
  if (const auto* inquiry = std::get_if<Inquiry>(&message)) {
    return take_inquiry(node, *inquiry, now);
  }
  agent.delivery.receive();
  if (!hold(node, message)) pass_to_round(node, message, now);
}

/// Keeps the message if it has to wait; returns whether it does.
bool ServerSessions::hold(NodeId node, const Message& message) {
  constexpr size_t kMostOfOne = 4;  // it fails, joins, leaves
  if (held_.size() >= kMostOfOne * agents_.size()) return false;
  const bool fails = std::holds_alternative<message::Fail>(message);
  const bool follows =
      std::ranges::any_of(held_, [&](const Held& held) { return fails || held.sender == node; });
  if (!follows && !(fails && member_out_of_reach(lines_lost_))) return false;
  held_.push_back({node, message, fails ? lines_lost_ : 0});
  return true;
}

/// A member whose line was among the first `lines_lost` to be lost, and is not back; null: none.
const Node* ServerSessions::member_out_of_reach(std::uint64_t lines_lost) const {
  if (round_.phase() != Round::Phase::active) return nullptr;
  for (const auto& [id, number] : unreachable_) {
    if (number > lines_lost) continue;
    const auto node = round_.nodes().find(id);
    const bool runs = node != round_.nodes().end() && node->second.state == NodeState::running;
    if (runs) return &node->second;
  }
  return nullptr;
}

void ServerSessions::release_held(Time now) {
  while (!held_.empty() && !member_out_of_reach(held_.front().lines_lost)) {
    const Held held = std::move(held_.front());
    held_.pop_front();
    if (agents_.contains(held.sender)) pass_to_round(held.sender, held.message, now);
  }
}

/// The answer to Ask. To Round, a node whose failure waits is a member, which waits for nothing.
std::string ServerSessions::waiting_for(NodeId node, Time now) {
  if (successors_.contains(node)) return kPredecessor;
  const bool is_held = std::ranges::count(held_, node, &Held::sender) > 0;
  const Node* const awaited = is_held ? member_out_of_reach(held_.front().lines_lost) : nullptr;
  if (awaited == nullptr) return waiting_for(now);
  return "news of " + node_name(*awaited) +
         ", which is out of reach: its loss would explain the failure here (decided within " +
         duration_text(eviction_timeout(options_.lease)) + ", --lease " +
         duration_text(options_.lease) + ")";
}

/// Whether an agent without a line has the place that this node asks for, on the same host.
bool ServerSessions::has_predecessor(NodeId node, const JoinRequest& request) const {
  const Node* const holder = request.node_rank ? round_.holder_of(*request.node_rank) : nullptr;
  return holder != nullptr && holder->id != node && unreachable_.contains(holder->id) &&
         holder->request.host == name_text(request.host);
}

bool ServerSessions::has_to_wait_for_place(NodeId node, const JoinRequest& request) {
  if (round_.nodes().contains(node) || !has_predecessor(node, request)) return false;
  const bool is_new = successors_.insert_or_assign(node, request).second;
  if (!is_new) return true;
  act(server_action::Warn{agents_.at(node).host + " was started again as node_rank " +
                          std::to_string(*request.node_rank) +
                          ": it waits until its predecessor, which is out of reach, is lost "
                          "(--lease " +
                          duration_text(options_.lease) + ")"});
  return true;
}

/// Call it when a node has a line again or is lost: nothing else ends their wait.
void ServerSessions::release_successors(Time now) {
  std::vector<std::pair<NodeId, JoinRequest>> free;
  std::erase_if(successors_, [&](auto& successor) {
    auto& [node, request] = successor;
    if (agents_.contains(node) && has_predecessor(node, request)) return false;
    free.emplace_back(node, std::move(request));
    return true;
  });
  for (auto& [node, request] : free) {
    if (agents_.contains(node)) take_join(node, std::move(request), now);
  }
}

void ServerSessions::take_join(NodeId node, JoinRequest request, Time now) {
  Agent& agent = agents_.at(node);
  // This check comes before the wait, after which it may have no connection.
  if (request.hosting && !agent.own) {
    return refuse_agent(*agent.connection, "it says that it hosts the master, which this is", now);
  }
  if (has_to_wait_for_place(node, request)) return;
  const bool is_resident = !options_.resident.empty() && agent.session == options_.resident;
  request.hosting = agent.own || is_resident;
  request.is_host = request.is_host || is_resident;
  agent.is_host = request.is_host;
  const std::string other = warned_of_commands_ ? "" : other_command_text(request, round_.nodes());
  Notifications notifications = round_.join(node, std::move(request), now);
  if (!other.empty() && round_.nodes().contains(node)) {
    warned_of_commands_ = true;
    act(server_action::Warn{other});
  }
  deliver(std::move(notifications));
}

void ServerSessions::pass_to_round(NodeId node, const Message& message, Time now) {
  if (const auto* join = std::get_if<message::Join>(&message)) {
    take_join(node, join->request, now);
  } else if (const auto* fail = std::get_if<message::Fail>(&message)) {
    Notifications notifications = round_.fail(node, fail->round, fail->failure, now);
    notify_workers(notifications);
    deliver(std::move(notifications));
  } else if (const auto* succeed = std::get_if<message::Succeed>(&message)) {
    deliver(round_.succeed(node, succeed->round, now));
    look_for_stall(now);
  } else if (const auto* progress = std::get_if<message::Progress>(&message)) {
    const auto known = round_.nodes().find(node);
    if (known == round_.nodes().end()) return;
    stall_.heard(known->second, progress->progress);
    look_for_stall(now);
  } else if (const auto* leave = std::get_if<message::Leave>(&message)) {
    deliver(round_.leave(node, now, leave->signal));
  }  // else a second Hello
}

void ServerSessions::look_for_stall(Time now) {
  const Stall::News news = stall_.look(round_.nodes(), round_.running());
  if (news == Stall::News::none || round_.phase() != Round::Phase::active) return;
  if (news == Stall::News::over) {
    std::erase_if(held_, [](const Held& held) { return is_hang(held.message); });
    return tell_members({"ranks make progress again"});
  }
  if (options_.round.hang_timeout.count() > 0) return end_stalled_round(now);
  tell_members({stall_.text(round_.nodes())});
}

/// Fails the round as if a node had reported it, so that another node's loss still comes first.
void ServerSessions::end_stalled_round(Time now) {
  const Failure failure = stall_.failure(round_.nodes());
  const NodeId node = Stall::node_of(failure.rank, round_.nodes());
  const Message fail = message::Fail{round_.nodes().at(node).last_round, failure};
  if (!hold(node, fail)) pass_to_round(node, fail, now);
}

void ServerSessions::tell_members(const Stalled& stalled) {
  Notifications notifications;
  for (const auto& [id, node] : round_.nodes()) {
    const bool is_member = node.state == NodeState::running || node.state == NodeState::finished;
    if (is_member) notifications.emplace_back(id, stalled);
  }
  deliver(std::move(notifications));
}

/// Announces notifications in the order of events, also if one of them has to wait.
void ServerSessions::deliver(Notifications notifications) {
  if (notifications.empty()) return;
  const bool is_first = unannounced_.empty();
  if (is_first && !has_to_be_recorded(notifications)) return announce(std::move(notifications));
  unannounced_.push_back(std::move(notifications));
  if (is_first) record();
}

void ServerSessions::record() {
  recording_ = round_.state();
  act(server_action::Record{recording_});
}

ServerActions ServerSessions::recorded() {
  recorded_ = recording_;
  while (!unannounced_.empty() && !has_to_be_recorded(unannounced_.front())) {
    announce(std::move(unannounced_.front()));
    unannounced_.pop_front();
  }
  if (!unannounced_.empty()) record();
  return take();
}

/// Whether the news is that a round begins or the job ends, and that is not recorded yet.
bool ServerSessions::has_to_be_recorded(const Notifications& notifications) const {
  if (!options_.inherited) return false;
  const JobState state = round_.state();
  const bool is_known =
      recorded_.round == state.round && recorded_.ending.has_value() == state.ending.has_value();
  return !is_known && std::any_of(notifications.begin(), notifications.end(), [](const auto& one) {
    return std::holds_alternative<Ready>(one.second) || std::holds_alternative<Closed>(one.second);
  });
}

void ServerSessions::announce(Notifications notifications) {
  name_store_host(notifications);
  ReplyMaker replies;
  for (auto& [node, notification] : notifications) {
    const auto found = agents_.find(node);
    if (found == agents_.end()) continue;
    Agent& agent = found->second;
    prepare(agent, notification);
    const SharedReply shared = replies.make(std::move(notification));
    if (agent.connection) act(server_action::Send{*agent.connection, shared});
    if (!agent.own) agent.delivery.add(shared);
    if (agent.delivery.unacked().size() > kMaxUnacked) end_session(node);
  }
}

void ServerSessions::prepare(const Agent& agent, const Notification& notification) {
  if (const auto* refused = std::get_if<Refused>(&notification)) {
    act(server_action::Warn{"refused " + agent.host + ": " + printable(refused->sentence)});
  }
  const auto* ready = std::get_if<Ready>(&notification);
  if (ready == nullptr) return;
  if (ready->layout.node_rank == 0) check_connections(ready->layout);
  if (ready->layout.round == store_round_) return;
  // No member has a client of the old store left: nodes join when their workers are reaped.
  store_round_ = ready->layout.round;
  act(server_action::EmptyStore{});
}

/// Workers without a connection wait, and then fail for a reason that does not name it.
void ServerSessions::check_connections(const Layout& layout) {
  const bool has_store = layout.store_port == 0;
  const int each = options_.tunnels ? 2 : 1;
  const int needed = each * (layout.node_count + (has_store ? layout.world_size : 0));
  if (static_cast<size_t>(needed) <= options_.connections) return;
  act(server_action::Warn{"this job needs " + std::to_string(needed) +
                          " connections to its master, which can have " +
                          std::to_string(options_.connections) +
                          ": raise the hard limit of open files on its host (ulimit -Hn)"});
}

/// Tells workers about a lost worker: they would wait for it until they are killed, if they outlive
/// SIGTERM. Workers that are stopped for another reason still have all their peers.
void ServerSessions::notify_workers(const Notifications& notifications) {
  for (const auto& [node, notification] : notifications) {
    const auto* broken = std::get_if<Broken>(&notification);
    if (broken == nullptr) continue;
    const auto& cause = broken->root_cause;
    if (!cause || !options_.loss_text) {
      return act(server_action::NotifyWorkers{printable(broken->reason)});
    }
    return act(server_action::NotifyWorkers{
        .sentence = printable(options_.loss_text(*cause)),
        .lost = cause->pid == 0 || cause->hung ? std::nullopt : std::optional(cause->rank)});
  }
}

/// Names the host of rank 0's store: the endpoint if node 0 runs there, else the address that node
/// 0 connects from.
void ServerSessions::name_store_host(Notifications& notifications) const {
  std::string host;
  for (const auto& [node, notification] : notifications) {
    const auto* ready = std::get_if<Ready>(&notification);
    if (ready == nullptr || ready->layout.node_rank != 0 || ready->layout.store_port == 0) continue;
    const auto first = agents_.find(node);  // it may be lost since the round was decided
    if (first == agents_.end() || first->second.is_host || !first->second.connection) continue;
    host = connections_.at(*first->second.connection).address;
  }
  if (host.empty()) return;
  for (auto& [node, notification] : notifications) {
    if (auto* ready = std::get_if<Ready>(&notification)) ready->layout.store_host = host;
  }
}

}  // namespace ddprun::rendezvous
