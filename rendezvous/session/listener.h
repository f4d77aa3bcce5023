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
#include "rendezvous/secret/handshake_threads.h"
#include "rendezvous/secret/secure_channel.h"
#include "store/connection_slots.h"

namespace ddprun::rendezvous {

/// The one port of a job: accepts every connection and identifies it by its first bytes. Closes
/// connections that have to make room for others, even after passing them on: see
/// store::ConnectionSlots.
///
/// Destroying it closes the connections that are still pending.
/// Thread: the executor's.
class Listener {
 public:
  struct Hooks {
    /// Whether to close the connection at once, before reading from it.
    std::function<bool(boost::asio::ip::tcp::socket&)> turns_away;
    /// An agent that speaks protocol `version`. `received`: the bytes after its greeting. `secure`
    /// has proven that the agent knows the secret; nullptr: the agent does not encrypt.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received, int version,
                       store::ConnectionSlot slot, std::unique_ptr<SecureChannel> secure)>
        agent;
    /// Any other connection: a client of the store, or one that the store will refuse.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received,
                       store::ConnectionSlot slot)>
        other;
    /// A tunnel's other end; `received`: the bytes after its greeting.
    std::function<void(boost::asio::ip::tcp::socket, std::string_view received,
                       store::ConnectionSlot slot, std::unique_ptr<SecureChannel> secure)>
        tunnel;
    /// An agent at `from` failed to prove that it knows the secret; `sentence` says why.
    std::function<void(const boost::asio::ip::address& from, const std::string& sentence)> refused;
  };

  /// Takes as many connections as the limit of open files allows now. `security`: the key of agents
  /// that encrypt; nullptr: they are refused.
  Listener(boost::asio::any_io_executor executor, std::shared_ptr<const Security> security,
           Hooks hooks);

  /// Listens on those of `addresses`, at least one, that are this host's; port 0 takes a free one,
  /// the same for all. Errors: usage (none is this host's), port_in_use, system: it names the
  /// address and what to do.
  Result<> listen(const std::vector<boost::asio::ip::tcp::endpoint>& addresses);

  /// The most connections that a port can have at once, with the present limit of open files.
  static size_t most_connections();

  /// The first address that it listens at.
  boost::asio::ip::tcp::endpoint address() const;

 private:
  using Tcp = boost::asio::ip::tcp;
  /// A connection that is not identified yet.
  struct PendingConnection {
    Tcp::socket socket;
    boost::asio::ip::address from;  ///< known also after it has closed its end
    store::ConnectionSlot slot;
    std::string received;  ///< decrypted, if it is encrypted
    std::unique_ptr<SecureChannel> secure;
  };
  /// By a new number each: a handler may still be queued when its connection is gone.
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
  std::shared_ptr<store::ConnectionSlots> slots_;
  std::list<ListenSocket> listen_sockets_;
  PendingConnections pending_;
  HandshakeQueue handshakes_;
  std::uint64_t next_id_ = 0;
  boost::asio::steady_timer tick_;
  bool ticks_ = false;
  // Queued handlers look at it first.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  // Set if there is a secret. The last member: it drops the threads' unfinished work.
  std::optional<HandshakeThreads> handshake_threads_;
};

}  // namespace ddprun::rendezvous
