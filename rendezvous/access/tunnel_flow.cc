// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/tunnel_flow.h"

#include <string>

namespace ddprun::rendezvous {

Result<> TunnelFlow::confirmed(std::size_t size) {
  if (size > unconfirmed_) {
    return Error{Errc::protocol, std::to_string(size) + " bytes are confirmed, of " +
                                     std::to_string(unconfirmed_) + " sent"};
  }
  unconfirmed_ -= size;
  return {};
}

Result<> TunnelFlow::received(std::size_t size) {
  if (size > kWindow - received_) {
    return Error{Errc::protocol, "more than " + std::to_string(kWindow) +
                                     " bytes of a connection were sent at once"};
  }
  received_ += size;
  return {};
}

/// Most requests and replies are small: confirming each would double the frames.
std::optional<std::uint32_t> TunnelFlow::passed_on(std::size_t size) {
  passed_on_ += size;
  if (passed_on_ < kWindow / 4) return std::nullopt;
  const auto count = static_cast<std::uint32_t>(passed_on_);
  received_ -= passed_on_;
  passed_on_ = 0;
  return count;
}

}  // namespace ddprun::rendezvous
