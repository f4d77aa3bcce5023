// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/etcd/messages.h"
#include "rendezvous/etcd/servers.h"
#include "rendezvous/etcd/tls.h"
#include "rendezvous/net/dialer.h"
#include "rendezvous/net/endpoint.h"

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

/// HTTP to the servers of one etcd, any of which may answer a request. Nothing blocks.
///
/// Destroying it ends all requests: no hook is called any more.
/// Thread: the executor's.
class Gateway {
 public:
  struct Options {
    Servers servers;
    std::optional<boost::asio::ip::address> local;  ///< the address to connect from
  };
  using Hook = std::function<void(Result<std::string> body)>;

  Gateway(boost::asio::any_io_executor executor, Options options);
  ~Gateway();
  Gateway(const Gateway&) = delete;

  /// Asks one server after the other until one answers, each for at most `limit`, beginning with
  /// the one that answered last. A server that gave no answer may have done the request. `hook`
  /// gets the body of the answer, later. Errors: unreachable (no server answered; names the last
  /// one and why), usage (etcd, or each of its servers, refuses ddprun until somebody changes that;
  /// what to do), protocol (etcd answered with an error).
  void ask(Post post, std::chrono::milliseconds limit, Hook hook);

  /// This host's address as the last server that answered sees it; nullopt: none has answered.
  const std::optional<boost::asio::ip::address>& own_address() const { return own_address_; }

 private:
  struct Asked {
    Post post;
    std::chrono::milliseconds limit;
    Hook hook;
    size_t server = 0;  ///< the one that is asked
    size_t tried = 0;
    size_t refused = 0;  ///< how many of the tried ones refused, for good
    bool login = false;  ///< it is the request for a token
    std::unique_ptr<Exchange> exchange{};
  };
  void log_in(std::chrono::milliseconds limit, std::function<void(Result<>)> done);
  void send(Post post, std::chrono::milliseconds limit, bool login, Hook hook);
  void try_server(std::uint64_t number);
  void on_reply(std::uint64_t number, const Result<Exchange::Reply>& reply);
  void on_refusal(std::uint64_t number, const Refusal& refusal);
  void pass_over(std::uint64_t number, Error why);
  std::string name_of(const Asked& asked) const;
  void end(std::uint64_t number, Result<std::string> result);

  boost::asio::any_io_executor executor_;
  Options options_;
  size_t server_ = 0;  // the last one that answered
  std::string token_;  // empty: none yet
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t last_ = 0;
  std::optional<boost::asio::ip::address> own_address_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // queued handlers look at it
};

}  // namespace ddprun::rendezvous::etcd
