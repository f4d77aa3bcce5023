// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/error.h"

// DECIDES how much of a connection may be on its way through a tunnel: a window of bytes in each
// direction. So a connection that is not read holds up no other, and takes little memory. Pure.

namespace ddprun::rendezvous {

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
