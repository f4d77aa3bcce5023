// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace ddprun::rendezvous {

/// The socket of a control connection, or of a tunnel: TCP, or one of a pair within this process.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

/// Whether the other side has closed its end, or reset the connection, also if it has sent bytes
/// before.
inline bool has_hung_up(boost::asio::ip::tcp::socket& socket) {
  pollfd ended{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&ended, 1, 0) > 0;
}

}  // namespace ddprun::rendezvous
