// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gloo/transport/buffer.h>

#include "collectives/backends/gloo/mesh.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// What this rank and another move between them in one call.
struct ExchangePayload {
  const char* data = nullptr;  ///< what we send, unless it follows later
  std::size_t bytes = 0;       ///< of `data`; at most GlooExchange::kLimit
  std::uint64_t sends = 0;     ///< elements we send in all
  std::uint64_t expects = 0;   ///< elements the other sends
};

/// Every rank sends every other its call and a little data: one step.
class GlooExchange {
 public:
  /// The longest data of a call, in bytes. Any socket takes one message of it without waiting for
  /// the reader, so ranks that all write first cannot block each other.
  static constexpr std::size_t kLimit = 64 << 10;

  explicit GlooExchange(GlooMesh& mesh);

  /// Sends every other rank `call` and its payload (by rank; ours is not looked at) and waits for
  /// theirs. The first rank found that makes another call, or counts other elements than we do;
  /// nullopt: all agree. Throws what Gloo throws.
  std::optional<int> run(const Call& call, const std::vector<ExchangePayload>& payloads);

  /// What another rank sent last; valid until the next.
  const char* data_of(int rank) const;
  Call call_of(int rank) const;
  std::uint64_t sends_of(int rank) const;
  std::uint64_t expects_of(int rank) const;

 private:
  struct Head {
    Call call;
    std::uint64_t sends = 0;
    std::uint64_t expects = 0;
  };
  struct Peer {
    std::vector<char> inbox;
    std::unique_ptr<gloo::transport::Buffer> from;
    std::unique_ptr<gloo::transport::Buffer> to;
  };

  void send(int other, const Call& call, const ExchangePayload& payload);
  void receive(int other);
  Head head_of(int rank) const;

  GlooMesh& mesh_;
  std::vector<char> outbox_;
  std::vector<Peer> peers_;  // by rank; ours is empty
};

}  // namespace ddp::internal
