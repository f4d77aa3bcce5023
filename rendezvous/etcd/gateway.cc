// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/gateway.h"

#include <array>
#include <sstream>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>

namespace ddprun::rendezvous::etcd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint64_t kMostBody = 1024 * 1024;
constexpr std::uint32_t kMostHeader = 16 * 1024;

std::string request_text(const Exchange::Options& options, const Post& post) {
  http::request<http::string_body> request(http::verb::post, post.path, 11);
  request.set(http::field::host, options.server.text());
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!options.token.empty()) request.set(http::field::authorization, options.token);
  request.body() = post.body;
  request.prepare_payload();
  std::ostringstream text;
  text << request;
  return std::move(text).str();
}

}  // namespace

/// The state of operations under way, which may outlive this object.
struct Exchange::Line {
  std::optional<tcp::socket> socket;
  std::optional<TlsChannel> tls;
  std::string unsent;
  std::string sending;
  std::array<char, 8192> buffer;
  std::string received;  // not parsed yet
  http::response_parser<http::string_body> parser;
};

Exchange::Exchange(const asio::any_io_executor& executor, const Options& options, const Post& post,
                   Done done)
    : line_(std::make_shared<Line>()),
      done_(std::move(done)),
      timer_(executor),
      dialer_(executor, options.server, options.local,
              {.connected = [this](tcp::socket socket) { on_connected(std::move(socket)); },
               .failed = [this](const Error& error) { end(error); }}) {
  line_->parser.body_limit(kMostBody);
  line_->parser.header_limit(kMostHeader);
  line_->parser.eager(true);
  line_->unsent = request_text(options, post);
  if (options.tls) {
    line_->tls.emplace(options.tls, options.server.host);
    line_->tls->send(std::exchange(line_->unsent, {}));
  }
  timer_.expires_after(options.limit);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
    if (!cancelled && !alive.expired()) end(Error{Errc::unreachable, "no answer"});
  });
  // Later, as it may fail at once, for example if no descriptor is left.
  asio::post(executor, [this, limit = options.limit, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) dialer_.dial(limit);
  });
}

Exchange::~Exchange() {
  error_code ignored;
  if (line_->socket) line_->socket->close(ignored);
}

void Exchange::on_connected(tcp::socket socket) {
  error_code gone;
  own_address_ = socket.local_endpoint(gone).address();
  line_->socket.emplace(std::move(socket));
  write();
  read();
}

void Exchange::write() {
  if (line_->tls) line_->unsent += line_->tls->take_output();
  if (!line_->sending.empty() || line_->unsent.empty()) return;
  line_->sending = std::exchange(line_->unsent, {});
  asio::async_write(
      *line_->socket, asio::buffer(line_->sending),
      [this, line = line_, alive = std::weak_ptr(alive_)](error_code failure, size_t) {
        line->sending.clear();
        // An answer that came before the server closed the connection says more.
        if (!alive.expired() && !failure) write();
      });
}

void Exchange::read() {
  line_->socket->async_read_some(
      asio::buffer(line_->buffer),
      [this, line = line_, alive = std::weak_ptr(alive_)](error_code failure, size_t size) {
        if (!alive.expired()) on_read(failure, size);
      });
}

void Exchange::on_read(const error_code& failure, size_t size) {
  const bool is_end = failure == asio::error::eof;
  if (failure && !is_end) return lose(failure.message());
  if (const Result<> taken = take({line_->buffer.data(), size}); !taken) return end(taken.error());
  const bool may_end = !line_->tls || line_->tls->is_ended();  // else it may have been cut
  if (error_code broken; is_end && may_end && line_->parser.is_header_done()) {
    line_->parser.put_eof(broken);
  }
  end_if_complete();
  if (!done_) return;
  if (is_end) return lose("it closed the connection without an answer");
  write();
  read();
}

/// Errors: usage, unreachable.
Result<> Exchange::take(std::string_view bytes) {
  is_answered_ = is_answered_ || !bytes.empty();
  if (line_->tls) {
    if (const Result<> taken = line_->tls->receive(bytes); !taken) return taken;
    line_->received += line_->tls->take_received();
  } else {
    line_->received += bytes;
  }
  error_code failure;
  if (line_->received.empty() || line_->parser.is_done()) return {};
  const size_t parsed = line_->parser.put(asio::buffer(line_->received), failure);
  line_->received.erase(0, parsed);
  // The rest is a part of a header, of a chunk's head, or of a trailer.
  if (line_->received.size() > kMostHeader)
    return Error{Errc::unreachable, "its answer has no end"};
  if (!failure || failure == http::error::need_more) return {};
  return Error{Errc::unreachable, failure.message()};
}

void Exchange::end_if_complete() {
  if (!line_->parser.is_done()) return;
  auto& message = line_->parser.get();
  end(Reply{message.result_int(), std::move(message.body()), own_address_});
}

void Exchange::lose(const std::string& reason) {
  if (line_->tls) return end(line_->tls->lost(reason));
  end(Error{Errc::unreachable,
            reason + (is_answered_ ? "" : " (does it speak TLS? --rdzv_conf protocol=https)")});
}

void Exchange::end(Result<Reply> reply) {
  const Done done = std::exchange(done_, nullptr);
  if (done) done(std::move(reply));
}

namespace asio = boost::asio;

Gateway::Gateway(asio::any_io_executor executor, Options options)
    : executor_(std::move(executor)), options_(std::move(options)) {}

Gateway::~Gateway() = default;

void Gateway::ask(Post post, std::chrono::milliseconds limit, Hook hook) {
  if (options_.servers.user.empty() || !token_.empty()) {
    return send(std::move(post), limit, false, std::move(hook));
  }
  log_in(limit,
         [this, limit, post = std::move(post), hook = std::move(hook)](const Result<>& done) {
           done ? send(post, limit, false, hook) : hook(done.error());
         });
}

void Gateway::log_in(std::chrono::milliseconds limit, std::function<void(Result<>)> done) {
  send(encode_login(options_.servers.user, options_.servers.password), limit, true,
       [this, done = std::move(done)](Result<std::string> body) {
         if (!body) return done(body.error());
         Result<std::string> token = decode_login(*body);
         if (!token) return done(token.error());
         token_ = std::move(*token);
         done({});
       });
}

void Gateway::send(Post post, std::chrono::milliseconds limit, bool login, Hook hook) {
  asked_.emplace(++last_, Asked{std::move(post), limit, std::move(hook), server_, 0, 0, login});
  try_server(last_);
}

void Gateway::try_server(std::uint64_t number) {
  Asked& asked = asked_.at(number);
  asked.exchange = std::make_unique<Exchange>(
      executor_,
      Exchange::Options{.server = options_.servers.servers[asked.server],
                        .local = options_.local,
                        .tls = options_.servers.tls,
                        .token = asked.login ? "" : token_,
                        .limit = asked.limit},
      asked.post,
      [this, number](const Result<Exchange::Reply>& reply) { on_reply(number, reply); });
}

void Gateway::on_reply(std::uint64_t number, const Result<Exchange::Reply>& reply) {
  constexpr unsigned kOk = 200;
  const Asked& asked = asked_.at(number);
  if (!reply) return pass_over(number, Error(reply.error()).in(name_of(asked)));
  if (reply->status != kOk) {
    return on_refusal(number, judge_refusal(reply->status, reply->body, options_.servers.user));
  }
  server_ = asked.server;
  own_address_ = reply->own_address;
  end(number, reply->body);
}

void Gateway::on_refusal(std::uint64_t number, const Refusal& refusal) {
  const std::string reason = name_of(asked_.at(number)) + ": " + refusal.sentence;
  switch (refusal.kind) {
    case Refusal::Kind::server:
      return pass_over(number, {Errc::unreachable, reason});
    case Refusal::Kind::lasting:
      return pass_over(number, {Errc::usage, reason});
    case Refusal::Kind::token:
      token_.clear();
      break;
    case Refusal::Kind::request:
      break;
  }
  end(number, Error{Errc::protocol, reason});
}

/// Asks the next server, if there is one. It is another error if each server refuses ddprun than if
/// none answers.
void Gateway::pass_over(std::uint64_t number, Error why) {
  Asked& asked = asked_.at(number);
  const size_t count = options_.servers.servers.size();
  asked.server = (asked.server + 1) % count;
  asked.refused += why.code == Errc::usage ? 1 : 0;
  if (++asked.tried >= count) {
    why.code = asked.refused == count ? Errc::usage : Errc::unreachable;
    return end(number, std::move(why));
  }
  // Later: a handler of the exchange that this replaces may be running.
  asio::post(executor_, [this, number, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) try_server(number);
  });
}

std::string Gateway::name_of(const Asked& asked) const {
  return "etcd at " + options_.servers.servers[asked.server].text();
}

void Gateway::end(std::uint64_t number, Result<std::string> result) {
  auto ended = std::make_shared<Asked>(std::move(asked_.at(number)));
  asked_.erase(number);
  // The exchange lives until its handler has returned.
  asio::post(executor_, [ended, result = std::move(result), alive = std::weak_ptr(alive_)] {
    ended->exchange.reset();
    if (!alive.expired()) ended->hook(result);
  });
}

}  // namespace ddprun::rendezvous::etcd
