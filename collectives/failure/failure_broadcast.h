// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ddp/store.h"

namespace ddp::internal {

/// How the ranks that joined together tell each other that a call of theirs came to nothing, and
/// how ddprun tells them that one of them is gone: each waits for a key of its own in the store, in
/// a thread that does nothing else. A rank acts on it once: who has raised it does not hear it, nor
/// who has heard it raise it.
class FailureBroadcast {
 public:
  /// What is called, once at most, in a thread of its own.
  struct Events {
    std::function<void(const std::string& group)> trouble;  ///< the prefix of the group that has it
    std::function<void(const std::string& sentence)> loss;  ///< "rank 3 on host n2 was killed ..."
  };

  /// `prefix` is that of the group in which they joined. Where the store is lost, nobody is told.
  FailureBroadcast(std::shared_ptr<Store> store, std::string prefix, int rank, int size,
                   Events events);
  FailureBroadcast(const FailureBroadcast&) = delete;
  FailureBroadcast& operator=(const FailureBroadcast&) = delete;

  /// Waits for the event, if there is one now.
  ~FailureBroadcast();

  /// Tells all others of trouble in the group, unless another rank tells them of some already. From
  /// any thread. Throws what the store throws.
  void raise(const std::string& group);

 private:
  std::string key(int rank) const;

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const int rank_;
  const int size_;
  const std::shared_ptr<std::atomic<bool>> acted_ = std::make_shared<std::atomic<bool>>(false);
  std::thread listener_;
};

}  // namespace ddp::internal
