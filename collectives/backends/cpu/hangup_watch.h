// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

#include "base/fd.h"

namespace ddp::internal {

/// Watches a connection on which nothing is sent, before there is a CpuMessages, which shows the
/// ends of others.
class HangupWatch {
 public:
  /// A thread of the watch calls `on_end` when the connection ends. Throws std::system_error.
  HangupWatch(ddprun::Fd connection, std::function<void()> on_end);
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;

  /// Waits for the function, if it is being called.
  ~HangupWatch();

 private:
  void run();

  const ddprun::Fd connection_;
  const std::function<void()> on_end_;
  const ddprun::Fd stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace ddp::internal
