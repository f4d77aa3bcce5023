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
#include "rendezvous/access/store_door.h"
#include "rendezvous/access/tunnel_line.h"
#include "rendezvous/net/dialer.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/listener.h"
#include "store/guests.h"

namespace ddprun::rendezvous {

class Server;

/// Where the workers of a node find the store when its traffic is encrypted: a port of this host's
/// loopback interface, for this user alone. What connects there is carried to the master through
/// one tunnel, which is made when it is needed; within the master's own process it needs none.
///
/// The tunnel has a line of its own: leases never wait for what workers send.
///
/// When the tunnel breaks, what it carried is closed, as if the store were lost. What connects
/// while there is none waits for the next one.
/// Thread: the executor's.
class StoreEntrance {
 public:
  struct Options {
    std::function<std::shared_ptr<const Security>()> security;  ///< of the job, as it is now
    std::optional<boost::asio::ip::address> local{};            ///< where to connect from
    std::function<Endpoint()> master;                           ///< where it is now
    std::function<Server*()> hosted;  ///< in this process; nullptr: it is elsewhere
  };

  StoreEntrance(boost::asio::any_io_executor executor, Options options);

  /// Errors: as Listener::listen.
  Result<> open();

  /// Where it listens.
  Endpoint address() const;

  /// Closes what the workers of the round before have left, and the tunnel: the master may be
  /// another one, or out of reach on that line, which only its next use would show.
  void begin_round();

 private:
  using Socket = boost::asio::ip::tcp::socket;
  /// Waits until the tunnel carries: a busy master may close one before that, and the next follows.
  struct Visitor {
    Socket socket;
    std::string received;
    store::Guest guest;
  };

  Listener::Hooks listener_hooks();
  Dialer::Hooks dialer_hooks();
  void admit(Socket socket, std::string_view received, store::Guest guest);
  void dial();
  void dial_later();
  void on_dialed(Socket socket);
  void on_proven();
  void on_lost(const Error& error);

  boost::asio::any_io_executor executor_;
  Options options_;
  StoreDoor door_;
  Listener listener_;
  Dialer dialer_;
  boost::asio::steady_timer pause_;
  Endpoint master_;                           // that is dialed, or was
  bool dials_ = false;                        // or pauses before it does
  std::map<std::uint64_t, Visitor> waiting_;  // oldest first
  std::uint64_t last_ = 0;
  std::unique_ptr<TunnelLine> line_;
  bool is_proven_ = false;  // the line's other end
};

}  // namespace ddprun::rendezvous
