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

/// One call in a stream. Thread: any.
class NcclCall {
 public:
  /// Made on the communicator's device.
  NcclCall(std::shared_ptr<NcclCommunicator> communicator, std::string where, bool is_captured);
  NcclCall(const NcclCall&) = delete;
  NcclCall& operator=(const NcclCall&) = delete;
  ~NcclCall();

  /// Records the event at the end of the call, when the whole call is in the stream.
  void record_end(CUstream stream);

  /// Makes later work of `stream` wait for the call.
  void make_wait(CUstream stream) const;

  /// Whether it is complete, or has failed. Never blocks. A captured call counts as complete: it
  /// runs only when its graph is launched.
  bool is_over() noexcept;

  /// The same, but throws CUDA's error about the call. The communicator has not failed then yet.
  bool check();

  std::optional<Error> error();

  const std::string& where() const { return where_; }

  /// Whether it is part of a graph.
  bool is_captured() const { return is_captured_; }

 private:
  const std::shared_ptr<NcclCommunicator> communicator_;
  const std::string where_;
  const bool is_captured_;
  std::unique_ptr<DeviceEvent> end_;
  std::atomic<bool> is_recorded_ = false;
  std::atomic<bool> succeeded_ = false;
};

/// Polls NCCL for errors in a thread of its own while the communicator has calls. A program that
/// synchronizes with its stream calls nothing here, and would wait forever for a kernel whose peer
/// is gone. So this thread fails the communicator, which aborts the kernel: streams continue.
class NcclWatch {
 public:
  explicit NcclWatch(std::shared_ptr<NcclCommunicator> communicator);
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;
  ~NcclWatch();

  /// Adds a call, in the order in which they run.
  void add(std::shared_ptr<NcclCall> call);

 private:
  void watch();
  void wait_for_call(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<NcclCommunicator> communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<NcclCall>> calls_;
  bool sleeps_ = false;  // until add() wakes it
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
