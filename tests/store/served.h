// SPDX-License-Identifier: Apache-2.0
// A store over real sockets, and clients of it.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <future>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "base/fd.h"
#include "base/log.h"
#include "store/server.h"
#include "tests/catch.h"
#include "tests/store/bytes.h"

namespace ddprun::store {

using boost::asio::ip::tcp;

/// A Server on its own port and thread.
class Served {
 public:
  explicit Served(Limits limits = {})
      : acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}, false), port_(port_of()) {
    acceptor_.listen(4096);
    log::set_level(log::Level::off);
    server_.emplace(io_.get_executor(), limits);
    accept();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Served() {
    io_.stop();
    thread_.join();
    log::set_level(log::Level::info);
  }

  std::uint16_t port() const { return port_; }

  /// Runs `work` on the server's thread and waits for it.
  template <class Work>
  void on_its_thread(Work work) {
    std::promise<void> done;
    boost::asio::post(io_, [&] {
      work(*server_);
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  std::uint16_t port_of() { return acceptor_.local_endpoint().port(); }

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      server_->adopt(std::move(socket), "");
      accept();
    });
  }

  boost::asio::io_context io_{1};
  tcp::acceptor acceptor_;
  std::uint16_t port_;
  std::optional<Server> server_;
  std::thread thread_;
};

/// A blocking client that gives up after a minute.
class Peer {
 public:
  explicit Peer(const Served& served, std::string_view first = bytes::kHello)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    timeval patience{60, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const int on = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(served.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    send(first);
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // closed: receive() will show it
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// The next `size` bytes; fewer if the connection ends.
  std::string receive(std::size_t size) {
    std::string all(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t part = recv(socket_.get(), all.data() + got, size - got, 0);
      if (part <= 0) break;
      got += static_cast<std::size_t>(part);
    }
    all.resize(got);
    return all;
  }

  /// The reply, of `size` bytes, to `request`.
  std::string ask(std::string_view request, std::size_t size) {
    send(request);
    return receive(size);
  }

  /// Waits until the server has closed the connection.
  bool closed() {
    char byte;
    const ssize_t got = recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  int descriptor() const { return socket_.get(); }
  void hang_up() { socket_.reset(); }

  /// Ends with RST instead of FIN.
  void break_off() {
    const linger at_once{1, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket_.reset();
  }

 private:
  Fd socket_;
};

inline bool alive(Peer& peer) {
  return peer.ask(
             "\x0d"
             "abcd",
             4) == "abcd";
}

inline void wait_for_key(Peer& peer, const std::string& key) {
  REQUIRE(peer.ask(bytes::wait({key}), 1) == bytes::kStop);
}

}  // namespace ddprun::store
