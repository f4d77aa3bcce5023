// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"
#include "store/client.h"

namespace ddprun::agent {

/// Exchanges data between the MpiServers of all nodes of a round, by the round's store. Every node
/// makes the same calls in the same order. Blocks.
///
/// Thread: one call at a time.
class MpiExchange {
 public:
  MpiExchange(const rendezvous::Layout& layout, rendezvous::Endpoint store)
      : layout_(layout), store_(std::move(store)) {}

  /// Gives `own` to all nodes. Errors: as store::Client.
  Result<> begin(std::string_view own);

  /// Waits for `limit` until all nodes have begun: what they gave, one after the other, in any
  /// order. nullopt: not yet, call again.
  Result<std::optional<std::string>> end(std::chrono::milliseconds limit);

  /// Nodes that have not begun.
  Result<std::vector<int>> missing();

  /// Tells the other nodes which of this one's ranks have not called MPI_Init: "4-7".
  Result<> publish_uncalled(const std::string& ranks);

  /// The ranks that these nodes have published, joined.
  Result<std::string> uncalled_of(const std::vector<int>& nodes);

 private:
  Result<> connect();
  std::string key(std::string_view what) const;
  static std::string uncalled_key(int node);

  const rendezvous::Layout layout_;
  const rendezvous::Endpoint store_;
  std::optional<store::Client> client_;
  int number_ = 0;  // of the latest exchange
};

}  // namespace ddprun::agent
