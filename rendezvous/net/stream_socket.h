// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>

namespace ddprun::rendezvous {

/// The socket of a control connection, or of a tunnel: TCP, or one of a pair within this process.
using StreamSocket = boost::asio::generic::stream_protocol::socket;

}  // namespace ddprun::rendezvous
