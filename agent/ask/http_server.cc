// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/http_server.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace ddprun::agent::ask {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr int kMostConnections = 16;  // further ones wait in the kernel
constexpr std::uint32_t kMostHeader = 8 * 1024;
constexpr std::uint64_t kMostBody = 4 * 1024;
constexpr std::chrono::seconds kToAsk{10};
constexpr std::chrono::seconds kToAnswer{60};  // and to read the answer
constexpr std::chrono::seconds kAcceptPause{1};

/// Whether the process at the other end is of this user, or root's. The folder keeps others out;
/// this holds also where somebody has opened it for them.
bool is_friend(stream_protocol::socket& socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  const int fd = socket.native_handle();
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

Question question_of(const http::request<http::string_body>& request) {
  const std::string target(request.target());
  const size_t end = std::min(target.find('?'), target.size());
  Question question;
  question.method = request.method_string();
  question.path = target.substr(0, end);
  if (end < target.size()) question.query = target.substr(end + 1);
  return question;
}

}  // namespace

class HttpServer::Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(const asio::any_io_executor& executor, Handler handler)
      : acceptor_(executor), pause_(executor), handler_(std::move(handler)) {}

  Result<> listen(const std::string& path);
  void close();
  void closed_one();
  const Handler& handler() const { return handler_; }

 private:
  bool is_taken(const std::string& path);
  void accept();
  void on_accepted(error_code failure, stream_protocol::socket socket);

  stream_protocol::acceptor acceptor_;
  asio::steady_timer pause_;
  Handler handler_;
  std::string path_;  // that was bound
  int connections_ = 0;
};

/// One question and its answer. The timer's handler keeps it alive.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(stream_protocol::socket socket, std::weak_ptr<Listener> listener)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), listener_(std::move(listener)) {
    parser_.header_limit(kMostHeader);
    parser_.body_limit(kMostBody);
  }
  ~Connection() {
    if (const auto listener = listener_.lock()) listener->closed_one();
  }
  Connection(const Connection&) = delete;

  void start() {
    close_after(kToAsk);
    http::async_read(socket_, buffer_, parser_,
                     [self = shared_from_this()](error_code failure, size_t) {
                       failure ? self->close() : self->on_asked();
                     });
  }

 private:
  void on_asked() {
    const auto listener = listener_.lock();
    if (!listener) return close();
    close_after(kToAnswer);
    listener->handler()(question_of(parser_.get()), [weak = weak_from_this()](Answer answer) {
      if (const auto self = weak.lock()) self->respond(std::move(answer));
    });
  }

  void respond(Answer answer) {
    if (std::exchange(answered_, true)) return;
    response_.result(answer.status);
    response_.version(parser_.get().version());
    response_.set(http::field::content_type, "application/json");
    response_.keep_alive(false);
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    http::async_write(socket_, response_,
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

  stream_protocol::socket socket_;
  asio::steady_timer timer_;
  std::weak_ptr<Listener> listener_;
  boost::beast::flat_buffer buffer_;
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> response_;
  bool answered_ = false;
};

/// A file of that name is of a process that had the same id and was killed, unless one listens.
bool HttpServer::Listener::is_taken(const std::string& path) {
  stream_protocol::socket probe(acceptor_.get_executor());
  error_code failure;
  probe.connect(path, failure);
  return !failure;
}

/// The socket gets its name when it listens: one that does not looks like that of a killed process,
/// which anyone may remove.
Result<> HttpServer::Listener::listen(const std::string& path) {
  if (is_taken(path)) return Error{Errc::port_in_use, "another process listens at " + path};
  const std::string first_name = path.substr(0, path.rfind('/')) + "/." + std::to_string(getpid());
  unlink(first_name.c_str());
  error_code failure;
  acceptor_.open(stream_protocol(), failure);
  if (!failure) acceptor_.bind(first_name, failure);
  if (failure) return os_error("cannot create a socket for " + path, failure.value());
  acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) acceptor_.non_blocking(true, failure);
  if (failure || rename(first_name.c_str(), path.c_str()) != 0) {
    unlink(first_name.c_str());
    return os_error("cannot listen at " + path, failure ? failure.value() : errno);
  }
  path_ = path;
  accept();
  return {};
}

void HttpServer::Listener::close() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  if (!path_.empty()) unlink(path_.c_str());
}

void HttpServer::Listener::closed_one() {
  if (connections_-- == kMostConnections && acceptor_.is_open()) accept();
}

void HttpServer::Listener::accept() {
  acceptor_.async_accept([weak = weak_from_this()](error_code failure, auto socket) {
    if (const auto self = weak.lock()) self->on_accepted(failure, std::move(socket));
  });
}

/// Out of descriptors, the next attempt would fail at once, too.
void HttpServer::Listener::on_accepted(error_code failure, stream_protocol::socket socket) {
  if (!acceptor_.is_open()) return;
  if (failure) {
    pause_.expires_after(kAcceptPause);
    return pause_.async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (self && !cancelled) self->accept();
    });
  }
  if (is_friend(socket)) {
    ++connections_;
    std::make_shared<Connection>(std::move(socket), weak_from_this())->start();
  }
  if (connections_ < kMostConnections) accept();
}

HttpServer::HttpServer(asio::any_io_executor executor, Handler handler)
    : listener_(std::make_shared<Listener>(executor, std::move(handler))) {}

HttpServer::~HttpServer() {
  listener_->close();
}

Result<> HttpServer::listen(const std::string& path) {
  return listener_->listen(path);
}

}  // namespace ddprun::agent::ask
