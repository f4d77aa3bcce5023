// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Where each rank of a group accepts connections: what a rank knows of the others once all have
/// joined. It takes a few dozen bytes of each rank, and no connections.
class CpuListeners {
 public:
  /// Listens, publishes that through the store, and waits until every rank has. Throws ddp::Error,
  /// or what asio throws.
  explicit CpuListeners(const GroupContext& context);

  /// A listener, and the random token that the rank requires there. Only ranks of the group know
  /// the token, from the store.
  struct Listener {
    boost::asio::ip::tcp::endpoint endpoint;
    std::uint64_t token = 0;
  };
  const Listener& at(int rank) const { return all_[static_cast<std::size_t>(rank)]; }

  /// Moves this rank's listening socket to `acceptor`.
  void release_to(boost::asio::ip::tcp::acceptor& acceptor);

 private:
  std::string key(int rank) const { return context_.prefix + "joined/" + std::to_string(rank); }
  void publish() const;
  void read();
  void check_backends(const std::vector<std::string>& lines) const;
  void outlast_other_ranks() const;

  const GroupContext context_;
  boost::asio::io_context io_context_{1};
  boost::asio::ip::tcp::acceptor own_;
  std::vector<Listener> all_;  // by rank
};

}  // namespace ddp::internal
