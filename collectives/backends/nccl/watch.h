// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/nccl/communicator.h"

namespace ddp::internal {

/// One call in the communicator's stream. Thread: any.
class NcclCall {
 public:
  /// On the communicator's device.
  NcclCall(std::shared_ptr<NcclCommunicator> communicator, std::string where, bool is_captured);

  /// All of it is in the stream now.
  void mark_end();

  /// Where what is in `stream` from now on runs after it.
  void make_wait(CUstream stream) const;

  /// Whether it is done, well or not. Never blocks. Of one that was captured nothing is under way.
  bool is_over() noexcept;
  /// The same; throws what CUDA says about it, which breaks no communicator yet.
  bool check();
  std::optional<Error> error();

  const std::string& where() const { return where_; }

 private:
  const std::shared_ptr<NcclCommunicator> communicator_;
  const std::string where_;
  const bool is_captured_;
  DeviceEvent end_;
  std::atomic<bool> is_marked_ = false;
  std::atomic<bool> succeeded_ = false;
};

/// Asks NCCL for errors while a communicator has calls, in a thread of its own, for the program may
/// wait for its streams where it cannot be told of a failure: then the communicator is broken, and
/// streams go on.
class NcclWatch {
 public:
  explicit NcclWatch(std::shared_ptr<NcclCommunicator> communicator);
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;
  ~NcclWatch();

  /// In the order of the stream.
  void add(std::shared_ptr<NcclCall> call);

 private:
  void watch();

  const std::shared_ptr<NcclCommunicator> communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<NcclCall>> calls_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
