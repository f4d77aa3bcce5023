// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "base/limited_log.h"
#include "rendezvous/access/tunnel_line.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/secret/secure_channel.h"
#include "store/guests.h"
#include "store/server.h"

namespace ddprun::rendezvous {

/// The master's ends of all nodes' tunnels, whose connections are clients of the store. Each gets
/// one end of a pair of sockets, so the store treats it like any other.
///
/// Destroying it closes them. Thread: the executor's.
class TunnelEnds {
 public:
  /// `store` must outlive it.
  TunnelEnds(boost::asio::any_io_executor executor, store::Server& store);

  /// Takes the line of an agent that has proven that it knows the secret, and bytes read from it.
  void adopt(boost::asio::ip::tcp::socket socket, std::string_view received, store::Guest guest,
             std::unique_ptr<SecureChannel> secure);

  /// Closes all: a new round has its own tunnels.
  void clear() { ends_.clear(); }

 private:
  struct End {
    store::Guest guest;
    std::unique_ptr<TunnelLine> line;
  };

  Result<StreamSocket> add_client(std::string_view received);

  boost::asio::any_io_executor executor_;
  store::Server& store_;
  std::unordered_map<std::uint64_t, End> ends_;
  std::uint64_t last_ = 0;
  log::LimitedLog log_;
};

/// Makes the kernel probe whether the other host of a tunnel is still there.
void probe_when_idle(boost::asio::ip::tcp::socket& socket);

}  // namespace ddprun::rendezvous
