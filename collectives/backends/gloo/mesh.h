// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>

#include "base/fd.h"
#include "collectives/backends/gloo/listeners.h"
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
  /// On the host's interface by which the others reach it. Throws what Gloo throws.
  GlooMesh(GroupContext& context, const GlooListeners& listeners);

  /// Connects every pair of ranks, which find each other's ends through the store: each waits for
  /// all others to call it. Then calls `connected`, in another thread, which may use the mesh as a
  /// group's first call does. A rank that is lost or, after `limit`, late meanwhile is found, too.
  /// Throws ddp::Error, also after `connected` has returned: what that made must be destroyed
  /// before the mesh.
  void connect(std::chrono::milliseconds limit, const std::function<void()>& connected);

  int rank() const { return context_.rank; }
  int size() const { return context_.size; }
  const GlooListeners& listeners() const { return listeners_; }

  gloo::transport::Pair& pair(int rank) const { return *gloo_context_->getPair(rank); }

  /// Shuts down every connection, so that reads and writes on them fail, and so does connect().
  /// Thread: any.
  void abort() noexcept;

  /// The rank that the calling thread exchanges data with, set before each operation on a pair: the
  /// one to blame if Gloo throws, as its exceptions name no rank.
  void set_partner(int rank) { partner_ = rank; }
  int partner() const { return partner_; }

 private:
  enum class Phase { meeting, pairing, connected };

  std::string pair_key(int from, int to) const {
    return context_.prefix + "pair/" + std::to_string(from) + "/" + std::to_string(to);
  }
  void publish_addresses();
  void wait_for_addresses() const;
  void read_addresses();
  void connect_pairs();
  void throw_if_stopped() const;
  int late_rank() const;
  void duplicate_sockets();
  void unblock_connect(int other);

  using Addresses = std::vector<std::vector<char>>;  // of ends of Gloo's connections, by rank

  GroupContext& context_;
  const GlooListeners& listeners_;
  std::shared_ptr<gloo::transport::Context> gloo_context_;
  Addresses ours_;
  Addresses theirs_;
  std::vector<ddprun::Fd> sockets_;  // duplicates of Gloo's: its own close() waits for readers
  // Read by threads that watch, or abort, while another one connects.
  std::atomic<Phase> phase_ = Phase::meeting;  // after connected, sockets_ is complete
  std::atomic<bool> is_stopped_ = false;
  std::atomic<int> partner_ = 0;
  std::mutex unblocker_mutex_;  // of the next two
  boost::asio::io_context unblocker_context_;
  std::vector<boost::asio::ip::tcp::socket> unblockers_;
};

/// Gloo's message without the place in its source that it has in front.
std::string gloo_message(const std::exception& thrown);

}  // namespace ddp::internal
