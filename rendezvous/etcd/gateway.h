// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "rendezvous/etcd/exchange.h"
#include "rendezvous/etcd/messages.h"
#include "rendezvous/etcd/refusal.h"
#include "rendezvous/etcd/servers.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::rendezvous::etcd {

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
