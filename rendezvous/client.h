// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "rendezvous/control_connection.h"
#include "rendezvous/protocol.h"
#include "rendezvous/round.h"

namespace ddprun::rendezvous {

/// This node's line to the rendezvous server: one TCP connection, kept open for the whole job.
/// Losing it is how either side learns that the other is gone.
///
/// Destroying it closes the connection; no hook is called any more.
/// Thread: the executor's.
class Client {
 public:
  struct Hooks {
    std::function<void(Letter)> received;
    /// No letter will come any more. Errors: unreachable, protocol.
    std::function<void(Error)> lost;
  };

  Client(const boost::asio::any_io_executor& executor, const boost::asio::ip::tcp::endpoint& server,
         std::string run_id, Hooks hooks);

  /// Asks to be part of the next round; connects first when needed. A letter follows.
  void join(JoinRequest request);

  /// Tells of the first worker that failed here in `round`.
  void fail(int round, Failure failure);

  /// Tells that all workers of `round` ended well here.
  void succeed(int round);

  /// Says goodbye: the others go on without this node.
  void leave();

 private:
  void send(const Message& message);
  void on_connected(const std::string& first_message);
  void on_frame(std::string_view body);

  boost::asio::ip::tcp::endpoint server_;
  std::string run_id_;
  Hooks hooks_;
  boost::asio::ip::tcp::socket socket_;          // until it is connected
  std::optional<ControlConnection> connection_;  // from then on
};

}  // namespace ddprun::rendezvous
