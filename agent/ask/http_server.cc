// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/http_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "base/text.h"

namespace ddprun::agent::ask {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;
using AnyStream = asio::generic::stream_protocol;  // a unix socket, or TCP
using AnySocket = AnyStream::socket;

constexpr int kMostConnections = 16;  // further ones wait in the kernel
constexpr int kMostOfTcp = 64;
constexpr std::size_t kMostFollowers = 32;
/// A browser adds the cookies of all programs at the same address, whatever their ports.
constexpr std::uint32_t kMostHeader = 16 * 1024;
constexpr std::size_t kMostUnread = 4 * 1024;  // of a body, before its connection is closed
constexpr std::chrono::seconds kToAsk{10};
constexpr std::chrono::seconds kToAnswer{60};  // and to read the answer
constexpr std::chrono::seconds kToFollow{10};  // for each piece
constexpr std::chrono::seconds kAcceptPause{1};
constexpr std::chrono::milliseconds kToDrain{500};

/// Whether the process at the other end is this user's or root's. The folder keeps others out,
/// unless somebody has opened it for them.
bool is_friend(AnySocket& socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  const int fd = socket.native_handle();
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

/// Refuses descriptors from clients, from Linux 6.16 on: closing them may block (SO_LINGER).
void refuse_descriptors(int socket) {
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS, which older headers do not have
  const int off = 0;
  setsockopt(socket, SOL_SOCKET, kPassRights, &off, sizeof off);
}

using Request = http::request<http::empty_body>;  // a question has no body

std::string text_of(const Request& request, http::field field) {
  return std::string(request[field]);
}

Question question_of(const Request& request) {
  const std::string target(request.target());
  const size_t end = std::min(target.find('?'), target.size());
  Question question;
  question.method = request.method_string();
  question.path = target.substr(0, end);
  if (end < target.size()) question.query = target.substr(end + 1);
  question.host = text_of(request, http::field::host);
  question.origin = text_of(request, http::field::origin);
  question.authorization = text_of(request, http::field::authorization);
  return question;
}

std::uint16_t port_of(const AnyStream::endpoint& address) {
  tcp::endpoint endpoint;
  if (address.size() > endpoint.capacity()) return 0;
  std::memcpy(endpoint.data(), address.data(), address.size());
  return endpoint.port();
}

}  // namespace

class HttpServer::Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(const asio::any_io_executor& executor, Handler handler)
      : acceptor_(executor),
        pause_(executor),
        drain_limit_(executor),
        handler_(std::move(handler)) {}

  Result<> listen(const std::string& path);
  Result<std::uint16_t> listen(const tcp::endpoint& address);
  void close();
  void closed_one();
  const Handler& handler() const { return handler_; }
  bool follow(const std::shared_ptr<Connection>& connection);
  void publish(const std::shared_ptr<const std::string>& bytes);
  void drain(std::function<void()> done);
  void conclude_drain(bool in_time);
  std::size_t followers();

 private:
  bool is_taken(const std::string& path);
  bool is_full() const { return connections_ >= (path_.empty() ? kMostOfTcp : kMostConnections); }
  void accept();
  void on_accepted(error_code failure, AnySocket socket);

  asio::basic_socket_acceptor<AnyStream> acceptor_;
  asio::steady_timer pause_;
  asio::steady_timer drain_limit_;
  std::function<void()> drained_;  // empty: no drain() is pending
  Handler handler_;
  std::string path_;  // the bound one; empty: a port
  int connections_ = 0;
  std::vector<std::weak_ptr<Connection>> followers_;
};

/// One question, its answer, and the bytes published after it. Pending handlers keep it alive.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(AnySocket socket, std::weak_ptr<Listener> listener)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), listener_(std::move(listener)) {
    parser_.header_limit(kMostHeader);
    parser_.body_limit(boost::none);  // the body is not read
  }
  ~Connection() {
    if (const auto listener = listener_.lock()) listener->closed_one();
  }
  Connection(const Connection&) = delete;

  void start() {
    close_after(kToAsk);
    http::async_read_header(socket_, buffer_, parser_,
                            [self = shared_from_this()](error_code failure, size_t) {
                              failure ? self->close() : self->on_asked();
                            });
  }

  /// Sends `bytes` now, or after the present write, unless newer bytes replace them by then.
  void send(const std::shared_ptr<const std::string>& bytes) {
    if (std::exchange(is_sending_, true)) {
      next_ = bytes;
      return;
    }
    close_after(kToFollow);
    asio::async_write(socket_, asio::buffer(*bytes),
                      [self = shared_from_this(), bytes](error_code failure, size_t) {
                        failure ? self->close() : self->send_next();
                      });
  }
  bool is_sending() const { return is_sending_; }

 private:
  void on_asked() {
    const auto listener = listener_.lock();
    if (!listener) return close();
    close_after(kToAnswer);
    if (parser_.get().count(http::field::transfer_encoding) > 0)
      return respond({411, "", "text/plain"});
    listener->handler()(question_of(parser_.get()), [weak = weak_from_this()](Answer answer) {
      if (const auto self = weak.lock()) self->respond(std::move(answer));
    });
  }

  void respond(Answer answer) {
    if (std::exchange(answered_, true)) return;
    const auto listener = listener_.lock();
    const bool follows = answer.follows && listener && listener->follow(shared_from_this());
    if (answer.follows && !follows) answer = refusal(503, "too many look at this page");
    response_.result(answer.status);
    response_.version(parser_.get().version());
    response_.set(http::field::content_type, answer.type);
    for (const auto& [name, value] : answer.fields) response_.set(name, value);
    response_.keep_alive(false);
    response_.body() = std::move(answer.body);
    if (!follows) response_.prepare_payload();  // else the answer ends with the connection
    is_sending_ = true;
    http::async_write(socket_, response_,
                      [self = shared_from_this(), follows](error_code failure, size_t) {
                        if (failure) return self->close();
                        follows ? self->begin_to_follow() : self->finish();
                      });
  }

  /// Skips the request's body: if a socket closes with unread data, the client may lose the answer.
  void finish() {
    const bool has_body = parser_.chunked() || parser_.content_length().value_or(0) > 0;
    error_code gone;
    socket_.shutdown(AnySocket::shutdown_send, gone);
    if (gone || !has_body) return close();
    skip();
  }

  void skip() {
    socket_.async_read_some(
        asio::buffer(unread_), [self = shared_from_this()](error_code failure, size_t size) {
          self->skipped_ += size;
          failure || self->skipped_ > kMostUnread ? self->close() : self->skip();
        });
  }

  void send_next() {
    is_sending_ = false;
    timer_.cancel();
    if (const auto next = std::exchange(next_, nullptr)) return send(next);
    if (const auto listener = listener_.lock()) listener->conclude_drain(true);
  }

  /// A follower sends nothing more, so anything to read means that it has gone.
  void begin_to_follow() {
    send_next();
    socket_.async_read_some(asio::buffer(unread_),
                            [self = shared_from_this()](error_code, size_t) { self->close(); });
  }

  void close_after(std::chrono::seconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->close();
    });
  }

  void close() {
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
  }

  AnySocket socket_;
  asio::steady_timer timer_;
  std::weak_ptr<Listener> listener_;
  boost::beast::flat_buffer buffer_{kMostHeader};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
  bool answered_ = false;
  bool is_sending_ = false;
  std::array<char, 512> unread_{};
  std::size_t skipped_ = 0;
  std::shared_ptr<const std::string> next_;  // to send after the present write
};

/// Whether a process listens at `path`. Else a killed process with the same pid left the file.
bool HttpServer::Listener::is_taken(const std::string& path) {
  stream_protocol::socket probe(acceptor_.get_executor());
  error_code failure;
  probe.connect(path, failure);
  return !failure;
}

/// Between bind and listen the socket looks like a killed process's. So others do not remove a
/// new one (cli/ask/job_socket).
Result<> HttpServer::Listener::listen(const std::string& path) {
  error_code failure;
  acceptor_.open(stream_protocol(), failure);
  if (!failure) refuse_descriptors(acceptor_.native_handle());
  if (!failure) acceptor_.bind(stream_protocol::endpoint(path), failure);
  if (failure == asio::error::address_in_use) {
    if (is_taken(path)) return Error{Errc::port_in_use, "another process listens at " + path};
    unlink(path.c_str());
    acceptor_.bind(stream_protocol::endpoint(path), failure);
  }
  if (failure) return os_error("cannot create a socket for " + path, failure.value());
  path_ = path;
  acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) acceptor_.non_blocking(true, failure);
  if (failure) return os_error("cannot listen at " + path, failure.value());
  accept();
  return {};
}

Result<std::uint16_t> HttpServer::Listener::listen(const tcp::endpoint& address) {
  error_code failure;
  acceptor_.open(address.protocol(), failure);
  if (!failure) acceptor_.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) acceptor_.bind(address, failure);
  if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) acceptor_.non_blocking(true, failure);
  const std::string where = endpoint_text(address.address().to_string(), address.port());
  if (failure == asio::error::address_in_use)
    return Error{Errc::port_in_use, "another process listens at " + where};
  if (failure) return os_error("cannot listen at " + where, failure.value());
  accept();
  return port_of(acceptor_.local_endpoint());
}

void HttpServer::Listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  if (!path_.empty()) unlink(path_.c_str());
}

void HttpServer::Listener::closed_one() {
  const bool was_full = is_full();
  --connections_;
  if (was_full && acceptor_.is_open()) accept();
  conclude_drain(true);
}

/// Returns false if there are too many followers.
bool HttpServer::Listener::follow(const std::shared_ptr<Connection>& connection) {
  if (followers() >= kMostFollowers) return false;
  followers_.push_back(connection);
  return true;
}

void HttpServer::Listener::publish(const std::shared_ptr<const std::string>& bytes) {
  const auto followers = followers_;
  for (const auto& one : followers) {
    if (const auto connection = one.lock()) connection->send(bytes);
  }
}

void HttpServer::Listener::drain(std::function<void()> done) {
  drained_ = std::move(done);
  drain_limit_.expires_after(kToDrain);
  drain_limit_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled) self->conclude_drain(false);
  });
  conclude_drain(true);
}

/// Ends a pending drain(); if `in_time`, only once all followers have taken what was published.
void HttpServer::Listener::conclude_drain(bool in_time) {
  const auto is_sending = [](const std::weak_ptr<Connection>& one) {
    const auto connection = one.lock();
    return connection && connection->is_sending();
  };
  if (!drained_ || (in_time && std::ranges::any_of(followers_, is_sending))) return;
  drain_limit_.cancel();
  std::exchange(drained_, {})();
}

std::size_t HttpServer::Listener::followers() {
  std::erase_if(followers_, [](const auto& one) { return one.expired(); });
  return followers_.size();
}

void HttpServer::Listener::accept() {
  acceptor_.async_accept([weak = weak_from_this()](error_code failure, auto socket) {
    if (const auto self = weak.lock()) self->on_accepted(failure, std::move(socket));
  });
}

/// Pauses after a failure: without free descriptors, the next attempt would fail at once, too.
void HttpServer::Listener::on_accepted(error_code failure, AnySocket socket) {
  if (!acceptor_.is_open()) return;
  if (failure) {
    pause_.expires_after(kAcceptPause);
    return pause_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (self && !cancelled) self->accept();
    });
  }
  if (path_.empty() || is_friend(socket)) {
    ++connections_;
    std::make_shared<Connection>(std::move(socket), weak_from_this())->start();
  }
  if (!is_full()) accept();
}

HttpServer::HttpServer(asio::any_io_executor executor, Handler handler)
    : listener_(std::make_shared<Listener>(executor, std::move(handler))) {}

HttpServer::~HttpServer() {
  listener_->close();
}

Result<> HttpServer::listen(const std::string& path) {
  return listener_->listen(path);
}

Result<std::uint16_t> HttpServer::listen(const std::string& address, std::uint16_t port) {
  error_code failure;
  const auto ip = asio::ip::make_address(address, failure);
  if (failure) return os_error("no address of an interface: " + address, failure.value());
  return listener_->listen(tcp::endpoint(ip, port));
}

void HttpServer::publish(std::string bytes) {
  listener_->publish(std::make_shared<const std::string>(std::move(bytes)));
}

void HttpServer::drain(std::function<void()> done) {
  listener_->drain(std::move(done));
}

std::size_t HttpServer::followers() const {
  return listener_->followers();
}

}  // namespace ddprun::agent::ask
