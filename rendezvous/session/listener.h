// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/secret/handshake_queue.h"
#include "rendezvous/secret/handshake_threads.h"
#include "rendezvous/secret/secure_channel.h"
#include "store/guests.h"

namespace ddprun::rendezvous {

/// The one port of a job: accepts every connection and identifies it by its first bytes. Closes
/// those that have to make room for others, also when they have been passed on: see store::Guests.
///
/// Destroying it closes the connections that are still pending.
/// Thread: the executor's.
class Listener {
 public:
  struct Hooks {
    /// Whether to close the connection at once, unheard.
    std::function<bool(boost::asio::ip::tcp::socket&)> turns_away;
    /// An agent that speaks protocol `version`. `received`: the bytes after its greeting. `secure`:
    /// has proven that it knows the secret; nullptr: it does not encrypt.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received, int version,
                       store::Guest guest, std::unique_ptr<SecureChannel> secure)>
        agent;
    /// Any other: a client of the store, or a connection that the store will refuse.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received, store::Guest guest)>
        other;
    /// A tunnel's other end; `received`: the bytes after its greeting.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received, store::Guest guest,
                       std::unique_ptr<SecureChannel> secure)>
        tunnel;
    /// An agent at `from` that failed to prove that it knows the secret, and why, for people.
    std::function<void(const boost::asio::ip::address& from, const std::string& sentence)> refused;
  };

  /// Takes as many connections as the limit of open files allows now. `security`: of agents that
  /// encrypt; nullptr: they are refused.
  Listener(boost::asio::any_io_executor executor, std::shared_ptr<const Security> security,
           Hooks hooks);

  /// Listens on those of `addresses`, at least one, that are this host's; port 0 takes a free one,
  /// the same for all. Errors: usage (none is this host's), port_in_use, system: it says which and
  /// what to do.
  Result<> listen(const std::vector<boost::asio::ip::tcp::endpoint>& addresses);

  /// How many connections a port can have at once, with the limit of open files as it is.
  static size_t most_connections();

  /// Where it listens first.
  boost::asio::ip::tcp::endpoint address() const;

 private:
  using Tcp = boost::asio::ip::tcp;
  /// A connection that is not identified yet.
  struct PendingConnection {
    Tcp::socket socket;
    boost::asio::ip::address from;  ///< also when it has closed its end
    store::Guest guest;
    std::string received;  ///< decrypted, if it is encrypted
    std::unique_ptr<SecureChannel> secure;
  };
  /// By a number of their own: a handler may still be queued when its connection is gone.
  using PendingConnections = std::unordered_map<std::uint64_t, PendingConnection>;
  /// An address that we listen at.
  struct ListenSocket {
    Tcp::acceptor acceptor;
    boost::asio::steady_timer pause;
    bool stuck = false;  ///< it cannot accept, and that was logged
  };

  Result<> listen_at(const Tcp::endpoint& address);
  void accept(ListenSocket& listening);
  void accept_more(ListenSocket& listening);
  void take(Tcp::socket socket);
  void on_accept_failed(ListenSocket& listening, int error_number);
  void accept_later(ListenSocket& listening, int error_number);
  bool make_room();
  void wait_for_tick();
  void read_from(std::uint64_t id);
  void on_readable(std::uint64_t id);
  void take_bytes(std::uint64_t id, std::string_view bytes);
  void classify(std::uint64_t id);
  void secure(std::uint64_t id);
  void begin_handshakes_later();
  void begin_handshakes();
  void begin_handshake(std::uint64_t id);
  void on_handshake_begun(std::uint64_t id, HandshakeThreads::Answer answer);
  void decrypt(std::uint64_t id, std::string_view bytes);
  void go_on_with(std::uint64_t id, const Result<>& decrypted, const std::string& output);
  void refuse(std::uint64_t id, const std::string& alert, const std::string& sentence);

  boost::asio::any_io_executor executor_;
  std::shared_ptr<const Security> security_;
  Hooks hooks_;
  std::shared_ptr<store::Guests> guests_;
  std::list<ListenSocket> listen_sockets_;
  PendingConnections pending_;
  HandshakeQueue handshakes_;
  std::uint64_t next_id_ = 0;
  boost::asio::steady_timer tick_;
  bool ticks_ = false;
  // Handlers that were posted look at it first.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  // With a secret. The last: it drops what the threads still compute.
  std::optional<HandshakeThreads> handshake_threads_;
};

}  // namespace ddprun::rendezvous
