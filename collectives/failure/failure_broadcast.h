// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ddp/store.h"

namespace ddp::internal {

/// Notifies ranks that joined together: of each other's failed calls, and of workers that ddprun
/// reports as lost. Each rank waits in a thread for its own key in the store.
///
/// A rank handles one event: it raises the broadcast, or receives one of another rank or of ddprun.
class FailureBroadcast {
 public:
  /// Callbacks. At most one of them is called, once, in the thread of the broadcast.
  struct Events {
    std::function<void(const std::string& group)> failure;  ///< the prefix of the failed group
    /// "rank 3 on host n2 was killed ...", and 3; -1: it is not about one rank.
    std::function<void(int lost, const std::string& sentence)> loss;
  };

  /// `prefix` is that of the group in which the ranks joined. If the store is lost, no event comes.
  FailureBroadcast(std::shared_ptr<Store> store, std::string prefix, int rank, int size,
                   Events events);
  FailureBroadcast(const FailureBroadcast&) = delete;
  FailureBroadcast& operator=(const FailureBroadcast&) = delete;

  /// Blocks while a callback runs.
  ~FailureBroadcast();

  /// Notifies all other ranks of a failure in `group`, unless another rank has done so. Throws what
  /// the store throws. Thread: any.
  void raise(const std::string& group);

 private:
  std::string key(int rank) const;

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const int rank_;
  const int size_;
  const std::shared_ptr<std::atomic<bool>> handled_ = std::make_shared<std::atomic<bool>>(false);
  std::thread listener_;
};

}  // namespace ddp::internal
