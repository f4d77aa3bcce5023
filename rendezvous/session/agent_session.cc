// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/agent_session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace ddprun::rendezvous {

using std::chrono::milliseconds;

namespace {

/// The pauses between attempts add at most an eighth to the time that has passed.
constexpr milliseconds kLeastPause{10};
constexpr milliseconds kMostPause{1'000};

/// How often the time for a welcome doubles.
constexpr int kMostDoublings = 4;

/// The refusal by a master that may have another job; nullptr: `reply` is something else.
const Refused* refusal_of_stranger(const Reply& reply) {
  const auto* notification = std::get_if<Notification>(&reply);
  const auto* refused = notification ? std::get_if<Refused>(notification) : nullptr;
  return refused && refused->is_stranger ? refused : nullptr;
}

milliseconds pause_after(BootClock::duration so_far) {
  const auto eighth = std::chrono::duration_cast<milliseconds>(so_far / 8);
  return std::clamp(eighth, kLeastPause, kMostPause);
}

}  // namespace

// The node's own messages.

AgentActions AgentSession::join(JoinRequest request, Time now) {
  end_lease_if_over(now);
  const bool first = !std::exchange(joined_, true);
  if (begun_again_) request.unreported_failure = failure_;
  request.last_master = round_master_;
  unanswered_join_ = std::move(request);
  if (over_) return take();
  // The workers of the lost round had its lease; those of the next one have this session's.
  if (std::exchange(round_lost_, false)) renew_lease(renewed_from_, now);
  if (first) {
    become_unreachable(now, {});
    dial();
  } else {
    send_counted(message::Join{*unanswered_join_});
  }
  return take();
}

AgentActions AgentSession::fail(int round, Failure failure, Time now) {
  end_lease_if_over(now);
  failure_ = failure;
  send_counted(message::Fail{round, std::move(failure)});
  return take();
}

AgentActions AgentSession::succeed(int round, Time now) {
  end_lease_if_over(now);
  send_counted(message::Succeed{round});
  return take();
}

AgentActions AgentSession::progress(NodeProgress progress, Time now) {
  end_lease_if_over(now);
  send_counted(message::Progress{std::move(progress)});
  return take();
}

AgentActions AgentSession::leave(const std::string& signal, Time now) {
  end_lease_if_over(now);
  left_ = true;
  send_counted(message::Leave{signal});
  return take();
}

AgentActions AgentSession::gone(const std::string& how, Time now) {
  end_lease_if_over(now);
  if (over_) return take();
  send(message::Gone{settings_.session, how});
  end();
  return take();
}

AgentActions AgentSession::ask(Time now) {
  end_lease_if_over(now);
  if (over_) return take();
  if (used_ && !lease_.is_silent(now)) {
    send(message::Ask{});
  } else {
    report(node_event::WaitingFor{waiting_for_master() + "; giving up after " +
                                  duration_text(settings_.join_timeout) + " (--join_timeout)"});
  }
  return take();
}

AgentActions AgentSession::inquire(Inquiry inquiry, Time now) {
  end_lease_if_over(now);
  if (!over_) send(std::move(inquiry));
  return take();
}

void AgentSession::send(const Message& message) {
  if (used_) act(agent_action::Send{*used_, message});
}

void AgentSession::send_counted(Message message) {
  send(message);
  delivery_.add(std::move(message));
}

// Connecting: one connection in use, and beside it one that was not welcomed yet.

void AgentSession::dial() {
  next_dial_.reset();
  if (over_ || pending_ || std::exchange(dialing_, true)) return;
  act(agent_action::Dial{});
}

void AgentSession::dial_later(Time now) {
  if (over_) return;
  next_dial_ = now + pause_after(now - unreachable_since_.value_or(lease_.last_received()));
}

AgentActions AgentSession::connected(ConnectionId id, Time now) {
  end_lease_if_over(now);
  dialing_ = false;
  if (over_) {
    act(agent_action::Close{id});
    return take();
  }
  pending_ = id;
  say_hello(now);
  await_welcome(now);
  return take();
}

/// A busy master has reached this line: a new line would waste the handshake of both sides.
AgentActions AgentSession::proven(ConnectionId id, Time now) {
  end_lease_if_over(now);
  if (!over_ && id == pending_) await_welcome(now);
  return take();
}

void AgentSession::await_welcome(Time now) {
  welcome_limit_ = now + kDialLimit * (1 << std::min(unanswered_, kMostDoublings));
}

AgentActions AgentSession::dial_failed(const Error& error, Time now) {
  end_lease_if_over(now);
  dialing_ = false;
  set_reason(settings_.master, error.message);
  const bool is_stranger = error.code == Errc::protocol && !may_be_elsewhere();
  const bool is_refused = error.code == Errc::usage && !settings_.searched;
  if (settings_.hosting) {  // waiting cannot help within one process
    give_up({Errc::system, error.message});
  } else if ((is_refused || is_stranger) && master_.empty()) {
    give_up(error);
  } else {
    dial_later(now);
  }
  return take();
}

void AgentSession::say_hello(Time now) {
  hello_sent_ = now;
  ++hellos_;
  act(agent_action::Send{
      *pending_, message::Hello{settings_.run_id, settings_.min_nodes, settings_.max_nodes,
                                settings_.host, settings_.session, delivery_.report(), ticket_,
                                hellos_, settings_.addresses}});
  if (hellos_ > 1) return;
  // A new session need not wait for the welcome.
  delivery_.add(message::Join{*unanswered_join_});
  act(agent_action::Send{*pending_, delivery_.unacked().back()});
}

void AgentSession::drop_pending(const std::string& reason, Time now) {
  act(agent_action::Close{*pending_});
  pending_.reset();
  welcome_limit_.reset();
  set_reason(settings_.master, reason);
  dial_later(now);
}

/// Without a lease there is no hurry. A master to which thousands of nodes connect at once may not
/// reach any line within the first limit, and lines that all nodes have given up are in its way.
void AgentSession::give_up_pending(Time now) {
  if (lease_end_) return drop_pending("it does not answer", now);
  ++unanswered_;
  drop_pending("its port is open, but nothing there answers as a ddprun master", now);
}

/// A refusal or another program ends the session only before the first welcome. Later someone on
/// the way may have forged it, or the program may have the port while the master is restarted. An
/// elected master's address may be out of date, so another program may have it from the start.
AgentActions AgentSession::lost(ConnectionId id, const Error& error, Time now) {
  end_lease_if_over(now);
  if (over_ || (id != used_ && id != pending_)) return take();
  const bool is_stranger = error.code == Errc::protocol;
  const std::string reason =
      is_stranger ? "it is not a ddprun master: " + error.message : error.message;
  if (is_stranger && master_.empty() && !may_be_elsewhere()) {
    give_up(Error(error).in("the server at " + settings_.master + " is not a ddprun master"));
  } else if (error.code == Errc::usage && master_.empty() && !settings_.searched) {
    give_up({error.code, settings_.master + " refused this node: " + error.message});
  } else if (id == pending_) {
    drop_pending(reason, now);
  } else {
    act(agent_action::Close{id});
    used_.reset();
    set_reason(used_place_, reason);
    become_unreachable(now, "lost the master at " + used_place_ + " (" + reason + ")");
    if (is_stranger) {
      next_dial_ = now + kMostPause;  // bytes that cannot be read may come with each welcome
    } else {
      dial();
    }
  }
  return take();
}

void AgentSession::set_reason(const std::string& place, const std::string& reason) {
  reason_ = reason;
  if (settings_.searched) reasons_[place] = reason;
}

void AgentSession::become_unreachable(Time since, const std::string& sentence) {
  if (unreachable_since_) return;
  unreachable_since_ = since;
  if (!sentence.empty()) report(node_event::ConnectionChanged{sentence});
}

void AgentSession::become_reachable(Time now) {
  if (!unreachable_since_) return;
  const Time since = *std::exchange(unreachable_since_, std::nullopt);
  next_dial_.reset();
  if (std::exchange(dialing_, false)) act(agent_action::StopDialing{});
  if (master_.empty()) return;
  report(node_event::ConnectionChanged{"the master at " + used_place_ +
                                       " is reachable again after " + duration_text(now - since)});
}

/// Ends the session: no event has an effect any more.
void AgentSession::end() {
  over_ = true;
  unreachable_since_.reset();
  for (auto* time : {&next_dial_, &welcome_limit_, &next_heartbeat_, &lease_end_}) time->reset();
  if (std::exchange(dialing_, false)) act(agent_action::StopDialing{});
  for (auto* connection : {&pending_, &used_}) {
    if (*connection) act(agent_action::Close{**connection});
    connection->reset();
  }
}

void AgentSession::give_up(Error error) {
  end();
  report(node_event::GaveUp{std::move(error)});
}

// Messages.

AgentActions AgentSession::received(ConnectionId id, Reply reply, Time now) {
  end_lease_if_over(now);
  if (over_ || (id != used_ && id != pending_)) return take();
  const Refused* const refused = settings_.searched ? refusal_of_stranger(reply) : nullptr;
  if (refused && id == pending_) {
    drop_pending("it refused this node: " + printable(refused->sentence), now);
    return take();
  }
  lease_.received(now);
  if (id == pending_) {
    welcome_limit_.reset();
    unanswered_ = 0;
    if (used_) act(agent_action::Close{*used_});
    used_ = std::exchange(pending_, std::nullopt);
    used_place_ = settings_.master;
  }
  become_reachable(now);
  take_reply(std::move(reply), now);
  return take();
}

void AgentSession::take_reply(Reply reply, Time now) {
  if (const auto* welcome = std::get_if<reply::Welcome>(&reply)) return take_welcome(*welcome, now);
  if (const auto* heartbeat = std::get_if<Heartbeat>(&reply))
    return take_heartbeat(*heartbeat, now);
  if (auto* waiting = std::get_if<reply::Waiting>(&reply)) {
    return report(
        node_event::WaitingFor{held_ ? waiting_for_lease() : std::move(waiting->sentence)});
  }
  if (auto* whose = std::get_if<reply::Whose>(&reply)) {
    return act(agent_action::TellOwners{*used_, std::move(whose->connections)});
  }
  if (auto* inquiry = std::get_if<Inquiry>(&reply)) {
    return report(node_event::Inquiring{std::move(*inquiry)});
  }
  if (auto* notification = std::get_if<Notification>(&reply)) {
    take_notification(std::move(*notification), now);
  }  // else a secret that it has not asked for
}

void AgentSession::take_welcome(const reply::Welcome& welcome, Time now) {
  const std::string before = std::exchange(master_, welcome.master);
  const std::string place_before = std::exchange(master_place_, used_place_);
  ticket_ = welcome.ticket;
  hang_timeout_ = welcome.hang_timeout;
  const bool leased = !settings_.hosting;
  lease_.configure(leased ? welcome.heartbeat : milliseconds::zero(),
                   leased ? welcome.lease : milliseconds::zero());
  report(node_event::Welcomed{welcome});
  if (welcome.resumed) {
    resume(welcome.received);
  } else {
    renewed_from_ = hello_sent_;
    if (hellos_ > 1) {
      begin_again(before == welcome.master      ? "the master had declared this node lost"
                  : place_before == used_place_ ? "the master was restarted"
                                                : "another node is the master");
    }
  }
  renew_lease(std::max(renewed_from_, hello_sent_), now);
  send_heartbeat(now);  // the hello may have been on its way for most of the lease
}

void AgentSession::resume(std::uint64_t received) {
  delivery_.resume();
  delivery_.ack(received);
  for (const Message& message : delivery_.unacked()) send(message);
}

/// Begins a new session: messages of the old one mean nothing to this master.
void AgentSession::begin_again(const std::string& reason) {
  delivery_ = {};
  begun_again_ = true;
  held_.reset();
  if (left_) {
    round_lost_ = true;  // its workers may still be ending
  } else if (unanswered_join_) {
    unanswered_join_->unreported_failure = failure_;
    send_counted(message::Join{*unanswered_join_});
  } else {
    round_lost_ = true;
    report(node_event::RoundLost{reason});
  }
}

void AgentSession::take_notification(Notification notification, Time now) {
  if (!delivery_.receive()) return;
  const bool is_end =
      std::holds_alternative<Closed>(notification) || std::holds_alternative<Refused>(notification);
  if (auto* ready = std::get_if<Ready>(&notification)) {
    begin_round(ready->layout);
    if (unanswered_join_ && !has_lease(now)) return hold(std::move(*ready), now);
    unanswered_join_.reset();
  }
  if (const auto* broken = std::get_if<Broken>(&notification)) {
    take_broken(*broken);
    if (std::exchange(held_, std::nullopt)) {  // none of its workers ran here
      return send_counted(message::Join{*unanswered_join_});
    }
  }
  if (is_end) {
    send(Heartbeat{delivery_.received()});  // acknowledges it
    end();
  }
  report(node_event::Notified{std::move(notification)});
}

/// Keeps `ready` until there is a lease. The master counts this node as a member, and its
/// heartbeats renew the lease: joining again would only break the round. If another master comes
/// first, the join reports this round as the node's last one, though no worker ran here.
void AgentSession::hold(Ready ready, Time now) {
  JoinRequest& join = *unanswered_join_;
  join.last_master = round_master_;
  join.last_round = ready.layout.round;
  join.last_node_rank = ready.layout.node_rank;
  join.last_guests = ready.layout.guests;
  join.last_restarts = ready.layout.restarts;
  join.restarts = std::max(join.restarts, ready.layout.restarts);
  join.unreported_failure.reset();
  join.worker_exits = {};
  held_ = std::move(ready);
  held_since_ = now;
  is_quiet_ = false;
  send_heartbeat(now);
}

/// Reports the progress of the held round. The other nodes may wait for it, and the master could
/// not see that the round hangs.
void AgentSession::report_progress(bool quiet, Time now) {
  if (std::exchange(is_quiet_, quiet) == quiet) return;
  NodeProgress progress;
  progress.round = held_->layout.round;
  progress.quiet = quiet;
  if (quiet) {
    progress.seconds = std::chrono::duration<double>(now - held_since_).count();
    WorkerPlace& place = progress.places.emplace_back();
    place.kind = WorkerPlace::Kind::elsewhere;
    place.what = "not started, as this node waits for a lease";
    place.seconds = progress.seconds;
    place.ranks.resize(static_cast<size_t>(held_->layout.local_size));
    std::iota(place.ranks.begin(), place.ranks.end(), held_->layout.first_rank);
  }
  send_counted(message::Progress{std::move(progress)});
}

/// This round's master does not need the failure of the round before.
void AgentSession::begin_round(const Layout& layout) {
  const auto failure = std::exchange(failure_, std::nullopt);
  round_master_ = master_;
  const bool told = std::exchange(begun_again_, false) && failure && unanswered_join_;
  if (!told) return;
  if (layout.restarts > unanswered_join_->restarts) {
    report(node_event::FailureCounted{*failure, layout.restarts});
  } else {
    report(node_event::FailureDropped{*failure});
  }
}

/// The count includes a restart, but no end: if this master dies, the next one needs the reason.
void AgentSession::take_broken(const Broken& broken) {
  failure_ = broken.ends_job ? broken.root_cause : std::nullopt;
  if (unanswered_join_) {
    unanswered_join_->restarts = std::max(unanswered_join_->restarts, broken.restarts);
  }
}

void AgentSession::take_heartbeat(const Heartbeat& heartbeat, Time now) {
  delivery_.ack(heartbeat.received);
  if (const auto sent = lease_.heartbeat_answered()) renew_lease(*sent, now);
}

// Time.

AgentActions AgentSession::tick(Time now) {
  end_lease_if_over(now);
  const auto is_due = [now](const std::optional<Time>& time) { return time && *time <= now; };
  if (unreachable_since_ && *unreachable_since_ + settings_.join_timeout <= now) {
    give_up({Errc::timed_out, "timed out after " + duration_text(now - *unreachable_since_) +
                                  " (--join_timeout) waiting for " + waiting_for_master()});
  }
  if (is_due(welcome_limit_)) give_up_pending(now);
  if (is_due(next_heartbeat_)) send_heartbeat(now);
  if (is_due(next_dial_)) dial();
  return take();
}

std::optional<AgentSession::Time> AgentSession::deadline() const {
  std::optional<Time> first;
  const auto consider = [&first](const std::optional<Time>& time) {
    if (time && (!first || *time < *first)) first = time;
  };
  for (const auto& time : {next_dial_, welcome_limit_, next_heartbeat_, lease_end_}) consider(time);
  if (unreachable_since_) consider(*unreachable_since_ + settings_.join_timeout);
  return first;
}

void AgentSession::send_heartbeat(Time now) {
  next_heartbeat_.reset();
  if (over_ || lease_.heartbeat() == milliseconds::zero()) return;
  const bool is_limited = held_ && hang_timeout_ > milliseconds::zero();
  if (is_limited && now >= held_since_ + hang_timeout_) report_progress(true, now);
  if (used_) {
    // While a new connection is pending, the master will repeat the notifications after its hello.
    send(Heartbeat{pending_ ? delivery_.reported() : delivery_.received()});
    lease_.heartbeat_sent(now);
  }
  if (used_ && lease_.is_silent(now)) {
    set_reason(used_place_, "silent for " + duration_text(now - lease_.last_received()));
    become_unreachable(lease_.last_received(), "the master at " + used_place_ + " is " + reason_);
    dial();
  }
  next_heartbeat_ = now + lease_.heartbeat();
}

void AgentSession::renew_lease(Time sent, Time now) {
  renewed_from_ = sent;
  if (round_lost_) return;
  const auto end = lease_.end(sent);
  if (end && *end <= now) return;  // too late to save the lease
  lease_end_ = end;
  if (end) report(node_event::LeaseRenewed{*end});
  if (!held_) return;
  report_progress(false, now);
  unanswered_join_.reset();
  report(node_event::Notified{*std::exchange(held_, std::nullopt)});
}

void AgentSession::end_lease_if_over(Time now) {
  if (!lease_end_ || *lease_end_ > now) return;
  lease_end_.reset();
  report(node_event::LeaseOver{});
}

bool AgentSession::has_lease(Time now) const {
  return !lease_.end(now) || (lease_end_ && now < *lease_end_);
}

/// The answer to Ask: to the master this node is a member, which waits for nothing.
std::string AgentSession::waiting_for_lease() const {
  return "a lease for round " + std::to_string(held_->layout.round) +
         ", which has begun: the master at " + used_place_ +
         " takes longer to answer than a lease lasts (--lease)";
}

/// If several ports were tried, lists them, grouped by error.
std::string AgentSession::waiting_for_master() const {
  std::vector<std::pair<std::string, std::string>> tried;  // a reason and its places
  for (const auto& [place, reason] : reasons_) {
    const auto same = std::find_if(tried.begin(), tried.end(),
                                   [&why = reason](const auto& of) { return of.first == why; });
    if (same == tried.end()) {
      tried.emplace_back(reason, place);
    } else {
      same->second += ", " + place;
    }
  }
  std::string text;
  for (const auto& [reason, places] : tried) {
    text += (text.empty() ? "" : ", or ") + places + ": " + reason;
  }
  if (reasons_.size() < 2) {
    text = settings_.master + ": " + (reason_.empty() ? "no answer yet" : reason_);
  }
  const char* const hint = unanswered_ > 0
                               ? " (does another program have the port? is that host busy?)"
                               : " (is it started? is the port open in the firewall?)";
  return "the master at " + text + hint;
}

}  // namespace ddprun::rendezvous
