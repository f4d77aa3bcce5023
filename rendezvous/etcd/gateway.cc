// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/gateway.h"

#include <utility>

#include <boost/asio/post.hpp>

namespace ddprun::rendezvous::etcd {

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
