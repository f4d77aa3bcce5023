// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <poll.h>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace ddp::internal {

/// Watches connections on which nothing is sent, and calls a function for each that ends. Ranks
/// that share memory have one to each other for that: memory does not show that a peer died.
class HangupWatch {
 public:
  struct Connection {
    int rank = 0;
    ddprun::Fd socket;
  };

  /// A thread of the watch calls `lost` with the rank of each connection that ends. Throws
  /// std::system_error.
  HangupWatch(std::vector<Connection> connections, std::function<void(int rank)> lost);
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;

  /// Waits until the connection with this rank ends; false if it lasts for `limit`. Thread: any.
  bool ends_within(int rank, std::chrono::milliseconds limit) const;

  /// Waits for the function, if it is being called.
  ~HangupWatch();

 private:
  void run();

  const std::vector<Connection> connections_;
  const std::function<void(int rank)> lost_;
  ddprun::Fd end_;           // an eventfd
  std::vector<pollfd> all_;  // the connections, and end_; used by the thread
  std::thread thread_;
};

}  // namespace ddp::internal
