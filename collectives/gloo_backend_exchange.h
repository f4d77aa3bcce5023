// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/buffer.h>

#include "collectives/call.h"

namespace ddp::internal {

/// Every rank sends every other its call and a little data: one step, in the calling thread alone.
///
/// Gloo's newer interface hands each message from its own thread to ours and back; on a busy
/// machine every such hand-over can cost a time slice of the scheduler. Its older one, in
/// synchronous mode, reads and writes where it is called.
class GlooExchange {
 public:
  /// The longest data of a call, in bytes. Any socket takes one message of it without waiting for
  /// the reader, so ranks that all write first cannot block each other.
  static constexpr std::size_t kLimit = 64 << 10;

  /// Takes the context for itself.
  explicit GlooExchange(std::shared_ptr<gloo::rendezvous::Context> context);

  /// Sends `call` and `data` (at most kLimit bytes) to every other rank and waits for theirs.
  /// The rank that makes another call; nullopt: all make the same. Throws what Gloo throws; then
  /// partner() tells with whom.
  std::optional<int> run(const Call& call, std::string_view data);

  /// What another rank sent in the last run; valid until the next.
  const char* data_of(int rank) const;
  Call call_of(int rank) const;

  int partner() const { return partner_; }

 private:
  struct Peer {
    std::vector<char> inbox;
    std::unique_ptr<gloo::transport::Buffer> from;
    std::unique_ptr<gloo::transport::Buffer> to;
  };

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<char> outbox_;
  std::vector<Peer> peers_;  // by rank; ours is empty
  int partner_ = 0;
};

}  // namespace ddp::internal
