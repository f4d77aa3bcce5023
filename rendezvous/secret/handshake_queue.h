// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "store/guests.h"

// DECIDES whose TLS handshake is next: one of each address in turn, so that one host, such as a
// stranger who begins thousands, does not hold up the others. Pure.

namespace ddprun::rendezvous {

/// Connections that wait for their handshake.
class HandshakeQueue {
 public:
  using Number = std::uint64_t;  ///< of a connection

  void add(store::Site site, Number number);

  /// Takes the next one out; nullopt: there is none.
  std::optional<Number> next();

  bool is_empty() const { return turns_.empty(); }

 private:
  std::unordered_map<store::Site, std::deque<Number>> waiting_;
  std::deque<store::Site> turns_;  // sites with connections, the next one first
};

}  // namespace ddprun::rendezvous
