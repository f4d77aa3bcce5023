// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "collectives/backends/cpu/connections.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/cpu/listeners.h"
#include "collectives/backends/cpu/peer.h"

namespace ddp::internal {

/// Accepts the connections of a group's other ranks. The first frame on each says whose it is and
/// what for. A connection without such a frame gets nothing; if there are many, the oldest are
/// closed.
///
/// Thread: any, under the lock of `run_locked`; events, too.
class CpuReception {
 public:
  struct Events {
    /// The rank sends its messages on this connection. Returns the peer that gets them from now on;
    /// null if the rank had a connection before.
    std::function<CpuPeer*(int rank, const std::shared_ptr<RecvConnection>& connection)> on_hello;

    /// A connection for CpuMesh::accept().
    std::function<void(int from, ddprun::Fd socket)> on_calls;

    /// No more connections are accepted.
    std::function<void(const std::string& reason)> on_failure;
  };

  /// Listens with the listener of `own` in `listeners`.
  CpuReception(boost::asio::io_context& context, RunLocked run_locked, CpuListeners& listeners,
               int own, int ranks, Events events);

  /// Closes all connections; after that no event is called.
  void close() noexcept;

 private:
  struct Accepted {
    std::shared_ptr<RecvConnection> connection;
    CpuPeer* peer = nullptr;  ///< set by a hello
  };

  void accept();
  void limit_unidentified();
  void add_connection(boost::asio::ip::tcp::socket socket);
  bool on_first_frame(Accepted& accepted, const Frame& frame);

  const RunLocked run_locked_;
  const std::uint64_t token_;
  const int own_;
  const int ranks_;
  const Events events_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::list<Accepted> accepted_;
};

}  // namespace ddp::internal
