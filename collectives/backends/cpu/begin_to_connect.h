// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"

namespace ddp::internal {

/// Returns a socket that connects in the background; empty, with errno, if that has failed already.
/// Throws std::system_error if no socket can be made.
ddprun::Fd begin_to_connect(const boost::asio::ip::tcp::endpoint& to);

/// Returns why it did not connect, or ended later; 0 if the other side ended it.
int error_of_socket(int socket);

}  // namespace ddp::internal
