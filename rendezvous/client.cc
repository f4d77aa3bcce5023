// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "rendezvous/random_name.h"
#include "rendezvous/server.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

/// For one address; a SYN that was lost is sent again after one second (RFC 6298).
constexpr milliseconds kDialLimit{3'000};

/// Waiting between attempts never adds more than an eighth to the time it took so far.
constexpr milliseconds kLeastPause{10};
constexpr milliseconds kMostPause{1'000};

milliseconds pause_after(std::chrono::steady_clock::duration so_far) {
  const auto eighth = std::chrono::duration_cast<milliseconds>(so_far / 8);
  return std::clamp(eighth, kLeastPause, kMostPause);
}

}  // namespace

Client::Client(const asio::any_io_executor& executor, Options options, Hooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      session_(random_name()),
      dialer_(executor, options_.server, options_.local,
              {[this](asio::ip::tcp::socket socket) { on_connected(std::move(socket)); },
               [this](const Error& error) {
                 reason_ = error.message;
                 dial_later();
               }}),
      next_dial_(executor),
      welcome_limit_(executor),
      next_heartbeat_(executor),
      lease_end_(executor),
      join_limit_(executor) {}

void Client::join(JoinRequest request) {
  const bool first = !unreachable_since_ && !connection_;
  unanswered_join_ = std::move(request);
  // The workers of the lost round had its lease; those of the next one have this session's.
  if (std::exchange(round_lost_, false)) renew_lease(renewed_from_);
  if (!first) return send_counted(message::Join{*unanswered_join_});
  on_unreachable(Clock::now(), {});
  dial();
}

void Client::fail(int round, Failure failure) {
  send_counted(message::Fail{round, std::move(failure)});
}

void Client::succeed(int round) {
  send_counted(message::Succeed{round});
}

void Client::leave() {
  left_ = true;
  send_counted(message::Leave{});
}

void Client::request_waiting_for() {
  if (over_) return;
  if (connection_ && !lease_.is_silent(Clock::now())) return send(message::Ask{});
  hooks_.waiting(waiting_for_master() +
                 " (is it started? is the port open in the firewall?); giving up after " +
                 duration_text(options_.join_timeout) + " (--join_timeout)");
}

// Connecting: one connection in use, and beside it one that was not welcomed yet.

void Client::dial() {
  if (over_ || pending_) return;
  if (!is_hosting()) return dialer_.dial(kDialLimit);
  Result<StreamSocket> socket = options_.hosted->connect();
  if (socket) return on_connected(std::move(*socket));
  give_up(socket.error());
}

void Client::dial_later() {
  if (over_) return;
  const auto now = Clock::now();
  const auto so_far = now - unreachable_since_.value_or(lease_.last_received());
  call_at(next_dial_, now + pause_after(so_far), [this] { dial(); });
}

void Client::on_connected(StreamSocket socket) {
  const std::uint64_t connection = ++dialed_;
  pending_ = std::make_unique<ControlConnection>(
      std::move(socket), std::string_view(),
      ControlConnection::Hooks{
          [this, connection](std::string_view body) { on_frame(connection, body); },
          [this, connection](const Error& error) { on_connection_lost(connection, error); }});
  send_hello();
  call_at(welcome_limit_, Clock::now() + kDialLimit, [this, connection] {
    if (is_pending(connection)) drop_pending("it does not answer");
  });
}

void Client::send_hello() {
  hello_sent_ = Clock::now();
  std::string bytes = (is_hosting() ? "" : greeting()) +
                      encode(message::Hello{options_.run_id, options_.min_nodes, options_.max_nodes,
                                            options_.host, session_, delivery_.report()});
  if (dialed_ == 1) {  // a new session: no need to wait for the welcome
    delivery_.add(encode(message::Join{*unanswered_join_}));
    bytes += delivery_.unacked().back();
  }
  pending_->send(bytes);
}

void Client::drop_pending(const std::string& reason) {
  welcome_limit_.cancel();
  pending_.reset();
  reason_ = reason;
  dial_later();
}

void Client::on_connection_lost(std::uint64_t connection, const Error& error) {
  if (over_) return;
  if (error.code == Errc::protocol) {
    return give_up(
        Error(error).in("the server at " + options_.server.text() + " is not a ddprun master"));
  }
  if (is_pending(connection)) return drop_pending(error.message);
  connection_.reset();
  if (left_) return;
  reason_ = error.message;
  on_unreachable(Clock::now(),
                 "lost the master at " + options_.server.text() + " (" + error.message + ")");
  dial();
}

void Client::on_unreachable(Clock::time_point since, const std::string& sentence) {
  if (unreachable_since_) return;
  unreachable_since_ = since;
  call_at(join_limit_, since + options_.join_timeout, [this] {
    if (!unreachable_since_) return;
    give_up({Errc::timed_out, "timed out after " +
                                  duration_text(Clock::now() - *unreachable_since_) +
                                  " (--join_timeout) waiting for " + waiting_for_master()});
  });
  if (!sentence.empty()) hooks_.connection_changed(sentence);
}

void Client::on_reachable() {
  const auto since = *std::exchange(unreachable_since_, std::nullopt);
  join_limit_.cancel();
  next_dial_.cancel();
  dialer_.cancel();
  if (master_.empty()) return;
  hooks_.connection_changed("the master at " + options_.server.text() +
                            " is reachable again after " + duration_text(Clock::now() - since));
}

void Client::give_up(Error error) {
  over_ = true;
  dialer_.cancel();
  next_dial_.cancel();
  next_heartbeat_.cancel();
  pending_.reset();
  connection_.reset();
  hooks_.gave_up(std::move(error));
}

// Messages.

void Client::send(const Message& message) {
  if (connection_) connection_->send(encode(message));
}

void Client::send_counted(const Message& message) {
  std::string frame = encode(message);
  if (connection_) connection_->send(frame);
  delivery_.add(std::move(frame));
}

void Client::on_frame(std::uint64_t connection, std::string_view body) {
  Result<Reply> reply = decode_reply(body);
  if (!reply) return on_connection_lost(connection, reply.error());
  lease_.received(Clock::now());
  if (is_pending(connection)) {
    welcome_limit_.cancel();
    connection_ = std::move(pending_);
  }
  if (unreachable_since_) on_reachable();
  on_reply(std::move(*reply));
}

void Client::on_reply(Reply reply) {
  if (const auto* welcome = std::get_if<reply::Welcome>(&reply)) return on_welcome(*welcome);
  if (const auto* heartbeat = std::get_if<Heartbeat>(&reply)) return on_heartbeat(*heartbeat);
  if (const auto* waiting = std::get_if<reply::Waiting>(&reply)) {
    return hooks_.waiting(waiting->sentence);
  }
  on_notification(std::get<Notification>(std::move(reply)));
}

void Client::on_welcome(const reply::Welcome& welcome) {
  const std::string before = std::exchange(master_, welcome.master);
  const bool has_lease = !is_hosting();
  lease_.configure(has_lease ? welcome.heartbeat : milliseconds::zero(),
                   has_lease ? welcome.lease : milliseconds::zero());
  hooks_.welcomed(welcome);
  renewed_from_ = hello_sent_;  // the hook of a lost round may join at once
  if (welcome.resumed) {
    resume_session(welcome.received);
  } else if (dialed_ > 1) {
    begin_session(before == welcome.master ? "the master had declared this node lost"
                                           : "the master was restarted");
  }
  renew_lease(hello_sent_);
  if (before.empty()) send_heartbeat();
}

void Client::resume_session(std::uint64_t received) {
  delivery_.resume();
  delivery_.ack(received);
  for (const std::string& frame : delivery_.unacked()) connection_->send(frame);
}

/// Messages of the old session mean nothing to this server.
void Client::begin_session(const std::string& reason) {
  delivery_ = {};
  if (unanswered_join_) {
    send_counted(message::Join{*unanswered_join_});
  } else {
    round_lost_ = true;
    hooks_.round_lost(reason);
  }
}

void Client::on_notification(Notification notification) {
  if (!delivery_.receive()) return;
  over_ =
      std::holds_alternative<Closed>(notification) || std::holds_alternative<Refused>(notification);
  if (over_ || std::holds_alternative<Ready>(notification)) unanswered_join_.reset();
  if (over_) {  // closing the connection acknowledges it
    lease_end_.cancel();
    next_heartbeat_.cancel();
    pending_.reset();
    connection_.reset();
  }
  hooks_.received(std::move(notification));
}

void Client::on_heartbeat(const Heartbeat& heartbeat) {
  delivery_.ack(heartbeat.received);
  if (const auto sent = lease_.heartbeat_answered()) renew_lease(*sent);
}

// Time.

void Client::send_heartbeat() {
  if (over_ || lease_.heartbeat() == milliseconds::zero()) return;
  const auto now = Clock::now();
  if (connection_) {
    // While a new connection is pending the server will repeat what came after its hello.
    send(Heartbeat{pending_ ? delivery_.reported() : delivery_.received()});
    lease_.heartbeat_sent(now);
  }
  if (connection_ && lease_.is_silent(now) && !left_) {
    reason_ = "silent for " + duration_text(now - lease_.last_received());
    on_unreachable(lease_.last_received(),
                   "the master at " + options_.server.text() + " is " + reason_);
    dial();
  }
  call_at(next_heartbeat_, now + lease_.heartbeat(), [this] { send_heartbeat(); });
}

void Client::renew_lease(Clock::time_point sent) {
  renewed_from_ = sent;
  const auto end = lease_.end(sent);
  if (!end || round_lost_) return;
  hooks_.lease_renewed(*end);
  call_at(lease_end_, *end, [this] {
    if (!over_) hooks_.lease_over();
  });
}

template <class Then>
void Client::call_at(Timer& timer, Clock::time_point when, Then then) {
  timer.expires_at(when);
  timer.async_wait([then, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired()) then();
  });
}

std::string Client::waiting_for_master() const {
  return "the master at " + options_.server.text() + ": " +
         (reason_.empty() ? "no answer yet" : reason_);
}

}  // namespace ddprun::rendezvous
