// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/etcd/messages.h"
#include "rendezvous/etcd/tls.h"
#include "rendezvous/net/dialer.h"

namespace ddprun::rendezvous::etcd {

/// One request over HTTP to one server, on a connection of its own.
///
/// Destroying it ends the request: `done` is not called any more.
/// Thread: the executor's.
class Exchange {
 public:
  struct Options {
    Endpoint server;
    std::optional<boost::asio::ip::address> local;  ///< the address to connect from
    std::shared_ptr<const TlsClient> tls;           ///< nullptr: nothing is encrypted
    std::string token;                              ///< empty: none
    std::chrono::milliseconds limit;                ///< the time for all of it
  };
  struct Reply {
    unsigned status;
    std::string body;
    boost::asio::ip::address own_address;
  };
  using Done = std::function<void(Result<Reply>)>;

  /// `done` is called once, later; it must not destroy this. Errors: unreachable, usage (this host
  /// and the server do not trust each other).
  Exchange(const boost::asio::any_io_executor& executor, const Options& options, const Post& post,
           Done done);
  ~Exchange();
  Exchange(const Exchange&) = delete;

 private:
  struct Line;

  void on_connected(boost::asio::ip::tcp::socket socket);
  void write();
  void read();
  void on_read(const boost::system::error_code& failure, size_t size);
  Result<> take(std::string_view bytes);
  void end_if_complete();
  void lose(const std::string& reason);
  void end(Result<Reply> reply);

  std::shared_ptr<Line> line_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  Done done_;
  bool is_answered_ = false;  // the server has sent bytes
  boost::asio::ip::address own_address_;
  boost::asio::steady_timer timer_;
  Dialer dialer_;
};

}  // namespace ddprun::rendezvous::etcd
