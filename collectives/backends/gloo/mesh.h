// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>

#include "base/fd.h"
#include "collectives/backends/gloo/watch.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// A connection to every other rank, through Gloo's TCP transport.
///
/// In Gloo's synchronous mode: the thread that calls reads and writes, and so sees itself when a
/// connection ends. In the other mode Gloo's thread does, which hands every message over (on a busy
/// machine each can cost a time slice of the scheduler) and can overlook the end of a connection.
class GlooMesh {
 public:
  /// Joins the others through the store, on the address of this host that reaches it, and connects
  /// every pair of ranks. Throws ddp::Error, or what Gloo and asio throw when this host fails.
  explicit GlooMesh(GroupContext& context);

  int rank() const { return context_.rank; }
  int size() const { return context_.size; }

  /// Where another rank listens for connections that are not Gloo's, and what it asks of those who
  /// come: nobody outside the group knows it.
  struct Neighbour {
    PeerWatch::Endpoint endpoint;
    std::uint64_t token = 0;
  };
  const Neighbour& neighbour(int rank) const { return neighbours_[static_cast<std::size_t>(rank)]; }

  /// What we ask of those who come to us, and the place where they do.
  std::uint64_t token() const { return token_; }
  void hand_listener_to(boost::asio::ip::tcp::acceptor& acceptor) { watch_.hand_over_to(acceptor); }

  gloo::transport::Pair& pair(int rank) const { return *gloo_context_->getPair(rank); }

  /// Ends every connection under the hands of whoever reads or writes. From any thread.
  void abort() noexcept;

  /// The rank that is to blame when Gloo throws: whoever reads or writes says with whom.
  void turn_to(int rank) { partner_ = rank; }
  int partner() const { return partner_; }

 private:
  struct Peer;

  std::string key(int rank) const { return context_.prefix + "joined/" + std::to_string(rank); }
  void join();
  Peer find(int other);
  void connect(const std::vector<Peer>& peers);
  void keep_sockets(const std::vector<Peer>& peers);
  void come_instead_of(int other, boost::asio::ip::tcp::socket& stand_in) const;

  GroupContext& context_;
  PeerWatch watch_;
  std::uint64_t token_;
  std::vector<Neighbour> neighbours_;  // by rank; ours is empty
  std::shared_ptr<gloo::transport::Context> gloo_context_;
  std::vector<std::vector<char>> addresses_;  // of our ends, by rank
  std::vector<ddprun::Fd> sockets_;           // Gloo's, once more: its close() waits for readers
  std::atomic<int> partner_ = 0;              // set by the thread that connects, too
};

}  // namespace ddp::internal
