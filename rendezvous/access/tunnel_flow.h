// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

// DECIDES how much of a connection may be on its way through a tunnel: a window of bytes in each
// direction. So a connection that is not read holds up no other, and takes little memory. Pure.

/// One end of one connection in a tunnel.
class TunnelFlow {
 public:
  /// The most bytes on their way in one direction.
  static constexpr std::size_t kWindow = 256 * 1024;

  /// The number of bytes that may be sent now.
  std::size_t may_send() const { return kWindow - unconfirmed_; }

  void sent(std::size_t size) { unconfirmed_ += size; }

  /// The other end has passed on `size` bytes. Errors: protocol (they were never sent).
  Result<> confirmed(std::size_t size);

  /// `size` bytes came. Errors: protocol (more than the window).
  Result<> received(std::size_t size);

  /// `size` of the received bytes were passed on. Returns the number to confirm now, of all since
  /// the last confirmation; nullopt: it can wait for more.
  std::optional<std::uint32_t> passed_on(std::size_t size);

 private:
  std::size_t unconfirmed_ = 0;  // of the sent bytes
  std::size_t received_ = 0;     // and not confirmed
  std::size_t passed_on_ = 0;    // of the received bytes, and not confirmed
};

}  // namespace ddprun::rendezvous
