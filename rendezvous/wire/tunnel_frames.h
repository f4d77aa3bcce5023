// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

// The frames of a tunnel: the line, encrypted, that carries all connections of a node's workers to
// the store. It begins with a greeting. Then frames follow in both directions: a 32-bit big-endian
// length, the number of a connection (32 bits), a kind (one byte), and the kind's data. Only the
// agent opens connections, each with a new number. Pure.

namespace ddprun::rendezvous {

/// The most bytes of a connection in one frame.
inline constexpr std::size_t kMaxTunnelPiece = 16 * 1024;

/// A frame's bytes besides those of the connection, without its length.
inline constexpr std::size_t kTunnelHeader = 5;

struct TunnelFrame {
  enum class Kind : std::uint8_t {
    open = 1,  ///< a connection begins, with these bytes
    data,      ///< more bytes
    taken,     ///< `count` bytes of the other side have been passed on
    close,     ///< the connection is closed; nothing follows
  };

  std::uint32_t connection = 0;
  Kind kind = Kind::close;
  std::string_view bytes = {};  ///< open, data
  std::uint32_t count = 0;      ///< taken
};

/// A tunnel's first bytes, kGreetingSize as an agent's greeting.
std::string tunnel_greeting();

/// A whole frame, ready to be sent.
std::string encode(const TunnelFrame& frame);

/// The body of one frame, into which the result points. Errors: protocol.
Result<TunnelFrame> decode_tunnel_frame(std::string_view body);

}  // namespace ddprun::rendezvous
