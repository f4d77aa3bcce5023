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
                 dial_later(milliseconds::zero());
               }}),
      next_dial_(executor),
      trial_limit_(executor),
      next_beat_(executor),
      lease_end_(executor),
      give_up_(executor) {}

void Client::join(JoinRequest request) {
  const bool first = !lost_at_ && !line_;
  asked_for_ = std::move(request);
  // The workers of the lost round had its lease; those of the next one have this session's.
  if (std::exchange(round_lost_, false)) renew_lease(renewed_from_);
  if (!first) return send_counted(message::Join{*asked_for_});
  lose_touch(Clock::now(), {});
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

void Client::ask() {
  if (over_) return;
  if (!line_ || silent()) {
    return hooks_.waiting(waiting_for_master() +
                          " (is it started? is the port open in the firewall?); giving up after " +
                          duration_text(options_.join_timeout) + " (--join_timeout)");
  }
  say(message::Ask{});
}

void Client::say(const Message& message) {
  if (line_) line_->send(encode(message));
}

void Client::send_counted(const Message& message) {
  std::string frame = encode(message);
  if (line_) line_->send(frame);
  backlog_.add(std::move(frame));
}

void Client::dial() {
  if (over_ || trial_) return;
  if (!hosting()) return dialer_.dial(kDialLimit);
  Result<StreamSocket> socket = options_.hosted->connect();
  if (socket) return on_connected(std::move(*socket));
  finish(socket.error());
}

void Client::dial_later(milliseconds least_pause) {
  if (over_) return;
  const auto so_far = Clock::now() - lost_at_.value_or(heard_);
  next_dial_.expires_after(std::max(least_pause, pause_after(so_far)));
  next_dial_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired()) dial();
  });
}

void Client::on_connected(StreamSocket socket) {
  const std::uint64_t connection = ++dialed_;
  trial_ = std::make_unique<ControlConnection>(
      std::move(socket), std::string_view(),
      ControlConnection::Hooks{
          [this, connection](std::string_view body) { on_frame(connection, body); },
          [this, connection](const Error& error) { on_connection_lost(connection, error); }});
  introduce();
  trial_limit_.expires_after(kDialLimit);
  trial_limit_.async_wait([this, connection, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired() && is_trial(connection)) drop_trial("it does not answer");
  });
}

void Client::introduce() {
  hello_sent_ = Clock::now();
  hello_received_ = received_;
  std::string bytes = (hosting() ? "" : greeting()) +
                      encode(message::Hello{options_.run_id, options_.min_nodes, options_.max_nodes,
                                            options_.host, session_, received_});
  if (dialed_ == 1) {  // nobody knows our session yet: no need to wait for the welcome
    backlog_.add(encode(message::Join{*asked_for_}));
    bytes += backlog_.unacked().back();
  }
  trial_->send(bytes);
}

void Client::drop_trial(const std::string& reason) {
  trial_limit_.cancel();
  trial_.reset();
  reason_ = reason;
  dial_later(milliseconds::zero());
}

void Client::on_connection_lost(std::uint64_t connection, const Error& error) {
  if (over_) return;
  if (error.code == Errc::protocol) {
    return finish(
        Error(error).in("what answers at " + options_.server.text() + " is no ddprun master"));
  }
  if (is_trial(connection)) return drop_trial(error.message);
  line_.reset();
  if (left_) return;
  reason_ = error.message;
  lose_touch(Clock::now(),
             "lost the master at " + options_.server.text() + " (" + error.message + ")");
  dial();
}

void Client::on_frame(std::uint64_t connection, std::string_view body) {
  Result<Reply> reply = decode_reply(body);
  if (!reply) return on_connection_lost(connection, reply.error());
  heard_ = Clock::now();
  if (is_trial(connection)) {
    trial_limit_.cancel();
    line_ = std::move(trial_);
  }
  if (lost_at_) in_touch();
  if (const auto* welcome = std::get_if<reply::Welcome>(&*reply)) return on_welcome(*welcome);
  if (const auto* beat = std::get_if<Heartbeat>(&*reply)) return on_heartbeat(*beat);
  if (const auto* waiting = std::get_if<reply::Waiting>(&*reply)) {
    return hooks_.waiting(waiting->sentence);
  }
  on_notification(std::get<Notification>(std::move(*reply)));
}

void Client::on_welcome(const reply::Welcome& welcome) {
  const std::string before = std::exchange(master_, welcome.master);
  heartbeat_ = welcome.heartbeat;
  lease_ = welcome.lease;
  unanswered_.clear();
  hooks_.welcomed(welcome);
  if (welcome.resumed) {
    repeated_ = received_ - hello_received_;
    repeat(welcome.received);
  } else if (dialed_ > 1) {
    start_anew(before == welcome.master ? "the master had given this node up"
                                        : "the master was started anew");
  }
  renew_lease(hello_sent_);
  if (before.empty()) beat();
}

/// What the server has not received.
void Client::repeat(std::uint64_t received) {
  backlog_.ack(received);
  for (const std::string& frame : backlog_.unacked()) line_->send(frame);
}

/// What was said in the old session means nothing to this server.
void Client::start_anew(const std::string& reason) {
  received_ = 0;
  repeated_ = 0;
  backlog_ = {};
  if (asked_for_) {
    send_counted(message::Join{*asked_for_});
  } else {
    round_lost_ = true;
    hooks_.round_lost(reason);
  }
}

void Client::on_notification(Notification notification) {
  if (repeated_ > 0) {
    --repeated_;
    return;
  }
  ++received_;
  over_ =
      std::holds_alternative<Closed>(notification) || std::holds_alternative<Refused>(notification);
  if (over_ || std::holds_alternative<Ready>(notification)) asked_for_.reset();
  if (over_) {  // by closing the line we say that we know
    lease_end_.cancel();
    next_beat_.cancel();
    trial_.reset();
    line_.reset();
  }
  hooks_.received(std::move(notification));
}

void Client::on_heartbeat(const Heartbeat& heartbeat) {
  backlog_.ack(heartbeat.received);
  if (unanswered_.empty()) return;  // nobody asked
  renew_lease(unanswered_.front());
  unanswered_.pop_front();
}

void Client::finish(Error error) {
  over_ = true;
  dialer_.cancel();
  next_dial_.cancel();
  next_beat_.cancel();
  trial_.reset();
  line_.reset();
  hooks_.gave_up(std::move(error));
}

void Client::lose_touch(Clock::time_point since, const std::string& sentence) {
  if (lost_at_) return;
  lost_at_ = since;
  give_up_.expires_at(since + options_.join_timeout);
  give_up_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (cancelled || alive.expired() || !lost_at_) return;
    finish({Errc::timed_out, "gave up after " + duration_text(Clock::now() - *lost_at_) +
                                 " (--join_timeout) waiting for " + waiting_for_master()});
  });
  if (!sentence.empty()) hooks_.line_changed(sentence);
}

void Client::in_touch() {
  const auto since = *std::exchange(lost_at_, std::nullopt);
  give_up_.cancel();
  next_dial_.cancel();
  dialer_.cancel();
  if (master_.empty()) return;
  hooks_.line_changed("the master at " + options_.server.text() + " is there again after " +
                      duration_text(Clock::now() - since));
}

void Client::beat() {
  if (over_ || hosting() || heartbeat_ == milliseconds::zero()) return;
  if (line_) {
    say(Heartbeat{trial_ ? hello_received_ : received_});  // what it repeats is what hello said
    unanswered_.push_back(Clock::now());
  }
  if (line_ && silent() && !left_) {
    reason_ = "silent for " + duration_text(Clock::now() - heard_);
    lose_touch(heard_, "the master at " + options_.server.text() + " is " + reason_);
    dial();
  }
  next_beat_.expires_after(heartbeat_);
  next_beat_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired()) beat();
  });
}

void Client::renew_lease(Clock::time_point from) {
  renewed_from_ = from;
  if (hosting() || round_lost_ || lease_ == milliseconds::zero()) return;
  hooks_.lease_renewed(from + lease_);
  lease_end_.expires_at(from + lease_);
  lease_end_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired() && !over_) hooks_.lease_over();
  });
}

/// Two heartbeats without an answer: no load of a healthy server explains that.
bool Client::silent() const {
  return heartbeat_ > milliseconds::zero() && !hosting() && Clock::now() - heard_ > 2 * heartbeat_;
}

std::string Client::waiting_for_master() const {
  return "the master at " + options_.server.text() + ": " +
         (reason_.empty() ? "no answer yet" : reason_);
}

}  // namespace ddprun::rendezvous
