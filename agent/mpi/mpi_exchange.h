// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "rendezvous/net/endpoint.h"
#include "store/client.h"

namespace ddprun::agent {

/// Exchanges data between the MpiServers of some nodes of a round, by the round's store, again and
/// again. Blocks.
///
/// Thread: one call at a time.
class MpiExchange {
 public:
  /// All of these nodes, of which `own_node` is one, use the same name, and no others.
  MpiExchange(rendezvous::Endpoint store, int own_node, std::string name, std::vector<int> nodes)
      : store_(std::move(store)),
        own_node_(own_node),
        name_(std::move(name)),
        nodes_(std::move(nodes)) {}

  /// Gives `own` to these nodes. Errors: as store::Client.
  Result<> begin(std::string_view own);

  /// Waits for `limit` until all of them have begun: what they gave, one after the other, in any
  /// order. nullopt: not yet, call again.
  Result<std::optional<std::string>> end(std::chrono::milliseconds limit);

  /// Ends it for all of them without those that have not begun.
  Result<> finish();

  /// The number of the exchange that has ended: the same on all of its nodes, and of no other one
  /// in the round.
  std::int64_t number() const { return number_of_all_; }

  /// Closes the connection, until the next begin().
  void rest() { client_.reset(); }

  /// Nodes that have not begun.
  Result<std::vector<int>> missing();

  /// Tells the other nodes which of this one's ranks have not called MPI_Init: "4-7".
  Result<> publish_uncalled(const std::string& ranks);

  /// The ranks that these nodes have published, joined.
  Result<std::string> uncalled_of(const std::vector<int>& nodes);

  /// Tells all nodes of the round that a rank is lost, and returns how many are by now.
  Result<int> publish_lost(int rank);

  /// Waits for `limit` for the next rank that any node has lost. nullopt: not yet, call again.
  Result<std::optional<int>> next_lost(std::chrono::milliseconds limit);

 private:
  Result<> connect();
  std::string key(std::string_view what) const;
  static std::string uncalled_key(int node);
  static std::string lost_key(int number);

  const rendezvous::Endpoint store_;
  const int own_node_;
  const std::string name_;
  const std::vector<int> nodes_;
  std::optional<store::Client> client_;
  int number_ = 0;  // of the latest exchange
  std::int64_t number_of_all_ = 0;
  int known_lost_ = 0;
};

}  // namespace ddprun::agent
