// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>

namespace ddprun::rendezvous {

/// The socket of a control connection: TCP between processes, a pair of sockets within one.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

}  // namespace ddprun::rendezvous
