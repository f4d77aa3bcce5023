// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <gloo/transport/buffer.h>

#include "collectives/call.h"
#include "collectives/gloo_backend_mesh.h"

namespace ddp::internal {

/// Every rank sends every other its call and a little data: one step.
class GlooExchange {
 public:
  /// The longest data of a call, in bytes. Any socket takes one message of it without waiting for
  /// the reader, so ranks that all write first cannot block each other.
  static constexpr std::size_t kLimit = 64 << 10;

  explicit GlooExchange(GlooMesh& mesh);

  /// Sends `call` and `data` (at most kLimit bytes) to every other rank and waits for theirs.
  /// The rank that makes another call; nullopt: all make the same. Throws what Gloo throws.
  std::optional<int> run(const Call& call, std::string_view data);

  /// What another rank sent in the last run; valid until the next.
  const char* data_of(int rank) const;
  Call call_of(int rank) const;

 private:
  struct Peer {
    std::vector<char> inbox;
    std::unique_ptr<gloo::transport::Buffer> from;
    std::unique_ptr<gloo::transport::Buffer> to;
  };

  GlooMesh& mesh_;
  std::vector<char> outbox_;
  std::vector<Peer> peers_;  // by rank; ours is empty
};

}  // namespace ddp::internal
