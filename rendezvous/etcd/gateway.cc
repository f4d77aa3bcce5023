// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/gateway.h"

#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "base/text.h"
#include "rendezvous/dialer.h"

namespace ddprun::rendezvous::etcd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint64_t kMostBody = 1024 * 1024;
constexpr std::uint32_t kMostHeader = 16 * 1024;
constexpr size_t kMostReason = 300;  // of what a server says

}  // namespace

/// What a server answered.
struct Gateway::Reply {
  unsigned status;
  std::string body;
  asio::ip::address own_address;
};

/// One request to one server, on a connection of its own.
class Gateway::Exchange {
 public:
  using Done = std::function<void(Result<Reply>)>;

  /// `done` is called once, later; it may destroy this.
  Exchange(const asio::any_io_executor& executor, const Options& options, const Endpoint& server,
           const Post& post, const std::string& token, std::chrono::milliseconds limit, Done done)
      : shared_(std::make_shared<Shared>()),
        done_(std::move(done)),
        timer_(executor),
        dialer_(executor, server, options.local,
                {[this](tcp::socket socket) { on_connected(std::move(socket)); },
                 [this](const Error& error) { end(error); }}) {
    http::request<http::string_body>& request = shared_->request;
    request = {http::verb::post, post.path, 11};
    request.set(http::field::host, server.text());
    request.set(http::field::content_type, "application/json");
    request.set(http::field::connection, "close");
    if (!token.empty()) request.set(http::field::authorization, token);
    request.body() = post.body;
    request.prepare_payload();
    shared_->parser.body_limit(kMostBody);
    shared_->parser.header_limit(kMostHeader);
    timer_.expires_after(limit);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](error_code cancelled) {
      if (!cancelled && !alive.expired()) end(Error{Errc::unreachable, "no answer"});
    });
    // Later, as it may fail at once, as where there is no descriptor left, or no such address.
    asio::post(executor, [this, limit, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) dialer_.dial(limit);
    });
  }
  ~Exchange() {
    error_code ignored;
    if (shared_->socket) shared_->socket->close(ignored);
  }
  Exchange(const Exchange&) = delete;

 private:
  /// What operations under way use, which may outlive us.
  struct Shared {
    std::optional<tcp::socket> socket;
    http::request<http::string_body> request;
    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
  };

  void on_connected(tcp::socket socket) {
    error_code gone;
    own_address_ = socket.local_endpoint(gone).address();
    shared_->socket.emplace(std::move(socket));
    http::async_write(
        *shared_->socket, shared_->request,
        [this, shared = shared_, alive = std::weak_ptr(alive_)](error_code failure, size_t) {
          if (alive.expired()) return;
          failure ? end(Error{Errc::unreachable, failure.message()}) : read();
        });
  }

  void read() {
    http::async_read(
        *shared_->socket, shared_->buffer, shared_->parser,
        [this, shared = shared_, alive = std::weak_ptr(alive_)](error_code failure, size_t) {
          if (alive.expired()) return;
          if (failure) return end(Error{Errc::unreachable, failure.message()});
          auto& message = shared->parser.get();
          end(Reply{message.result_int(), std::move(message.body()), own_address_});
        });
  }

  void end(Result<Reply> reply) {
    const Done done = std::exchange(done_, nullptr);
    if (done) done(std::move(reply));
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  Done done_;
  asio::ip::address own_address_;
  asio::steady_timer timer_;
  Dialer dialer_;
};

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
         if (!body)
           return done(std::move(body.error()).in("etcd user '" + options_.servers.user + "'"));
         Result<std::string> token = decode_login(*body);
         if (!token) return done(token.error());
         token_ = std::move(*token);
         done({});
       });
}

void Gateway::send(Post post, std::chrono::milliseconds limit, bool login, Hook hook) {
  asked_.emplace(++last_, Asked{std::move(post), limit, std::move(hook), server_, 0, login});
  try_server(last_);
}

void Gateway::try_server(std::uint64_t number) {
  Asked& asked = asked_.at(number);
  asked.exchange = std::make_unique<Exchange>(
      executor_, options_, options_.servers.servers[asked.server], asked.post,
      asked.login ? "" : token_, asked.limit,
      [this, number](Result<Reply> reply) { on_reply(number, std::move(reply)); });
}

/// A server that has lost the others answers with 5xx, or not at all.
void Gateway::on_reply(std::uint64_t number, Result<Reply> reply) {
  constexpr unsigned kOk = 200, kBadRequest = 400, kUnauthorized = 401, kServerErrors = 500;
  Asked& asked = asked_.at(number);
  if (reply && reply->status == kOk) {
    server_ = asked.server;
    own_address_ = reply->own_address;
    return end(number, std::move(reply->body));
  }
  const std::string server = options_.servers.servers[asked.server].text();
  std::string reason = reply ? decode_error(reply->body) : reply.error().message;
  if (reason.empty()) reason = "HTTP status " + std::to_string(reply->status);
  reason = "etcd at " + server + ": " + printable(cut(reason, kMostReason));
  if (reply && reply->status < kServerErrors) {
    // It lasts for minutes, or until users are changed: then the revision of auth is too old.
    if (reply->status == kUnauthorized || reply->status == kBadRequest) token_.clear();
    return end(number, Error{Errc::protocol, reason});
  }
  asked.server = (asked.server + 1) % options_.servers.servers.size();
  if (++asked.tried >= options_.servers.servers.size()) {
    return end(number, Error{Errc::unreachable, reason});
  }
  // Not within a handler of the exchange that it replaces.
  asio::post(executor_, [this, number, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) try_server(number);
  });
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
