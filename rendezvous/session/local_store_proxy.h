// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "rendezvous/access/store_admission_queue.h"
#include "rendezvous/access/tunnel_line.h"
#include "rendezvous/net/dialer.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/listener.h"
#include "store/connection_slots.h"

namespace ddprun::rendezvous {

class Server;

/// The port of this host's loopback interface at which a node's workers find the store when its
/// traffic is encrypted, for this user alone. Carries connections to the master through one tunnel,
/// which it makes when it is needed. In the master's own process it needs no tunnel.
///
/// The tunnel has a line of its own, so that leases never wait for the workers' data.
///
/// When the tunnel breaks, its connections are closed, as if the store were lost. Connections that
/// come while there is no tunnel wait for the next one.
class LocalStoreProxy {
 public:
  struct Options {
    std::function<std::shared_ptr<const Security>()> security;  ///< the job's present key
    std::optional<boost::asio::ip::address> local{};            ///< the address to connect from
    std::function<Endpoint()> master;                           ///< its present place
    std::function<Server*()> hosted;  ///< the server in this process; nullptr: it is elsewhere
  };

  LocalStoreProxy(boost::asio::any_io_executor executor, Options options);

  /// Errors: as Listener::listen.
  Result<> open();

  /// The address that it listens at.
  Endpoint address() const;

  /// Closes the connections of the last round's workers, and the tunnel: the master may be another
  /// one, or unreachable on that line, which only its next use would show.
  void begin_round();

 private:
  using Socket = boost::asio::ip::tcp::socket;
  /// Waits for a proven tunnel: a busy master may close one before that, and another one follows.
  struct Visitor {
    Socket socket;
    std::string received;
    store::ConnectionSlot slot;
  };

  Listener::Hooks listener_hooks();
  Dialer::Hooks dialer_hooks();
  void admit(Socket socket, std::string_view received, store::ConnectionSlot slot);
  void dial();
  void dial_later();
  void on_dialed(Socket socket);
  void on_proven();
  void on_lost(const Error& error);

  boost::asio::any_io_executor executor_;
  Options options_;
  StoreAdmissionQueue admissions_;
  Listener listener_;
  Dialer dialer_;
  boost::asio::steady_timer pause_;
  Endpoint master_;                           // the last one dialed
  bool dials_ = false;                        // or pauses before dialing
  std::map<std::uint64_t, Visitor> waiting_;  // oldest first
  std::uint64_t last_ = 0;
  std::unique_ptr<TunnelLine> line_;
  bool is_proven_ = false;  // the line's other end
};

}  // namespace ddprun::rendezvous
