// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/hangup_watch.h"

namespace ddp::internal {

/// The listeners of a group's ranks, where they accept connections. A rank publishes its own
/// through the store, and reads there those of the few ranks that it connects to first. Through
/// these connections it learns the others, so the store's work for a rank does not grow with the
/// group.
class CpuListeners {
 public:
  /// The listeners that a rank knows once all have joined. With `all` the store then gives each
  /// rank all listeners at once, for a group that may never connect all of its ranks.
  enum class Known { few, all };

  /// Listens, publishes the listener through the store, and waits until every rank has. Throws
  /// ddp::Error, or what asio throws.
  CpuListeners(const GroupContext& context, Known known);

  /// A listener, and the random token that the rank requires there. Only ranks of the group know
  /// the token, from the store or from each other.
  struct Listener {
    boost::asio::ip::tcp::endpoint endpoint;
    std::uint64_t token = 0;
  };

  /// The listener of this rank, or of another that it knows. Thread: any.
  Listener at(int rank) const;

  /// Returns false if the two ranks are in different network namespaces. Then they cannot share
  /// memory, and do not try. Thread: any.
  bool may_share_memory(int rank) const;

  /// A Listener in few bytes, as ranks exchange it. Sent as it lies in memory, so without padding.
  struct Packed {
    std::array<unsigned char, 16> address = {};  ///< IPv6, or IPv4 mapped to IPv6
    std::uint64_t token = 0;
    std::uint16_t port = 0;  ///< 0: the rank is not known
    /// A part of network_namespace(); 0: not known.
    std::array<std::uint16_t, 3> network_namespace = {};
  };
  static_assert(sizeof(Packed) == 32);

  /// This rank's listener.
  const Packed& own() const { return packed_; }
  /// Stores the listeners of all ranks. Thread: any.
  void learn(const std::vector<Packed>& all);

  /// Asks the store for the listeners of those ranks that are not known. Throws ddp::Error.
  void read(const std::vector<int>& ranks);

  /// Moves this rank's listening socket to `acceptor`.
  void release_to(boost::asio::ip::tcp::acceptor& acceptor);

 private:
  void publish() const;
  void meet(Known known);
  std::unique_ptr<HangupWatch> watch_rank_0(Known known);
  std::optional<AgreedError> read_all(Known known);
  void read_table();
  std::optional<AgreedError> take(const std::vector<int>& ranks,
                                  const std::vector<std::string>& lines);
  void outlast_other_ranks() const;

  const GroupContext context_;
  boost::asio::io_context io_context_{1};
  boost::asio::ip::tcp::acceptor own_;
  const boost::asio::ip::tcp::endpoint endpoint_;
  const Packed packed_;
  mutable std::mutex mutex_;
  std::vector<Packed> known_;  // by rank
};

}  // namespace ddp::internal
