// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>

#include "base/fd.h"
#include "collectives/backends/gloo/peer_watch.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// Gloo's connections over TCP: one to every other rank.
///
/// They are in Gloo's synchronous mode, in which the calling thread reads and writes and so detects
/// the end of a connection itself. In the asynchronous mode Gloo's thread does it. It passes every
/// message on, which on a busy machine can cost a time slice of the scheduler for each, and can
/// miss the end of a connection.
class GlooMesh {
 public:
  /// Publishes addresses through the store, of the host's interface by which the others reach it,
  /// and waits until every rank has. Throws ddp::Error, or what Gloo and asio throw if something
  /// fails on this host.
  explicit GlooMesh(GroupContext& context);

  /// Connects every pair of ranks. Then calls `connected`, in another thread, which may use the
  /// mesh as a group's first call does: a rank that is lost or late meanwhile is found, too. Throws
  /// as the constructor does, also after `connected` has returned: what that made must be destroyed
  /// before the mesh.
  void connect(const std::function<void()>& connected);

  int rank() const { return context_.rank; }
  int size() const { return context_.size; }

  /// Where a rank accepts connections that are not Gloo's, and the random token that it
  /// requires there. Only ranks of the group know the token, from the store.
  struct Listener {
    PeerWatch::Endpoint endpoint;
    std::uint64_t token = 0;
  };
  const Listener& listener(int rank) const { return listeners_[static_cast<std::size_t>(rank)]; }

  /// The token that this rank requires, and its listening socket, which moves to `acceptor`.
  std::uint64_t token() const { return listener(rank()).token; }
  void release_listener_to(boost::asio::ip::tcp::acceptor& acceptor) {
    peer_watch_.release_to(acceptor);
  }

  gloo::transport::Pair& pair(int rank) const { return *gloo_context_->getPair(rank); }

  /// Shuts down every connection, so that reads and writes on them fail. Thread: any.
  void abort() noexcept;

  /// The rank that the calling thread exchanges data with, set before each operation on a pair: the
  /// one to blame if Gloo throws, as its exceptions name no rank.
  void set_partner(int rank) { partner_ = rank; }
  int partner() const { return partner_; }

 private:
  struct Peer;

  std::string key(int rank) const { return context_.prefix + "joined/" + std::to_string(rank); }
  std::string pair_key(int from, int to) const {
    return context_.prefix + "pair/" + std::to_string(from) + "/" + std::to_string(to);
  }
  void publish_addresses();
  std::vector<Peer> read_addresses();
  Peer parse(int other, const std::string& listener, const std::string& address);
  void check_backends(const std::vector<std::string>& lines) const;
  void outlast_other_ranks() const;
  void duplicate_sockets(const std::vector<Peer>& peers);
  void unblock_connect(int other, boost::asio::ip::tcp::socket& socket) const;

  GroupContext& context_;
  PeerWatch peer_watch_;
  std::vector<Listener> listeners_;  // by rank
  std::shared_ptr<gloo::transport::Context> gloo_context_;
  std::vector<std::vector<char>> addresses_;  // of our ends of Gloo's connections, by rank
  std::vector<ddprun::Fd> sockets_;      // duplicates of Gloo's: its own close() waits for readers
  std::atomic<bool> connected_ = false;  // and sockets_ is complete
  std::atomic<int> partner_ = 0;         // read by the thread that watches, while it connects
};

/// Gloo's message without the place in its source that it has in front.
std::string gloo_message(const std::exception& thrown);

}  // namespace ddp::internal
