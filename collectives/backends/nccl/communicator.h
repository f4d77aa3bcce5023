// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cuda.h>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/cuda/device.h"
#include "ddp/error.h"

namespace ddp::internal {

/// NCCL's communicator of one rank of a group, with its GPU and its own stream.
///
/// It is non-blocking (ncclConfig_t::blocking = 0). A blocking one keeps the calling thread inside
/// NCCL until the peers come, forever if one does not, and cannot be aborted while it connects.
/// With a non-blocking one NCCL returns ncclInProgress. The only way to learn the result is to poll
/// ncclCommGetAsyncError, until the group's timeout. If a function of NCCL blocks all the same, so
/// does abort(), but never failure(): the process's watchdog continues, and ends the process.
///
/// The first failure becomes the group's agreed error; later calls throw it. Only after that does
/// ncclCommAbort end NCCL's kernels on the device, so that streams continue: peers that see the
/// communicator end find the cause in the store. If a watcher is set, it aborts the communicator,
/// together with the process's others (NcclGroup::abort_together()), and watches timeouts.
///
/// Thread: one at a time for calls; any for watch(), set_timeout(), failure(), fail(), abort().
class NcclCommunicator : public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Not connected yet.
  NcclCommunicator(GroupContext context, int device);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Aborts it unless close() was called.
  ~NcclCommunicator();

  /// Sets the watcher: `failed` is called with the first failure, unless that is an abort(), and
  /// must call abort().
  void watch(std::function<void(const Error& error)> failed);

  /// Sets the timeout of later requests, if no watcher watches timeouts.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// Connects to the other ranks, which it finds through the store. Errors name ranks that did not
  /// join.
  void connect();

  /// The same for ranks that are all in this process.
  static void connect_together(std::span<const std::shared_ptr<NcclCommunicator>> ranks);

  /// Connects parts of the group. `part` gets the ranks that pass the same color, in the order of
  /// their keys; null: this rank is in no part. All ranks of the group call it, while none of its
  /// calls is under way.
  void split(int color, int key, NcclCommunicator* part);

  /// Connects `part`: all ranks but `excluded`, which do not call it. Needs NCCL 2.27, and no call
  /// of the group may be under way.
  void shrink(std::vector<int> excluded, NcclCommunicator& part);

  /// NCCL's handle of memory; at most one of the two is set.
  struct Registration {
    void* window = nullptr;
    void* handle = nullptr;
  };

  /// Registers memory of ncclMemAlloc(): as a symmetric window if NCCL has them and not all ranks
  /// are in this process; all ranks make the same call for that. Else registers it for this rank
  /// alone.
  Registration register_memory(void* memory, std::size_t bytes);

  /// Undoes register_memory(), unless the communicator has ended: that undoes it, too. Waits for an
  /// abort that is under way.
  void deregister(const Registration& registration) noexcept;

  /// Makes the `calls` of NCCL in a group, each wrapped in check(). Returns when NCCL has put them
  /// into the stream; inside a group of the caller, at once. `where` is as in agree_on().
  void launch(const std::string& where, const std::function<void(ncclComm_t)>& calls);

  /// Makes a call of launch() fail if the result is an error.
  static void check(ncclResult_t result);

  /// Throws the failure, including one that NCCL reports only now.
  void check_async_error(const std::string& where);

  std::optional<Error> failure() const;

  /// Fails the communicator with "rank N SENTENCE". Returns the first failure.
  Error fail(const std::string& where, ErrorKind kind, const std::string& sentence);

  /// Fails the communicator with an error that was thrown in a call.
  Error fail(const std::string& where, const Error& thrown);

  /// Fails the communicator without notifying the other ranks.
  void abort() noexcept;

  /// Waits for all calls, and for the other ranks. Only the destructor may be called after it.
  void close() noexcept;

  const GroupContext& context() const { return context_; }
  const CudaDevice& device() const { return device_; }
  CUstream stream() const { return stream_; }

  /// Events for its calls.
  DeviceEvents& events() { return events_; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  std::vector<ncclUniqueId> exchange_ids();
  std::vector<ncclUniqueId> read_ids(int each);
  void meet_ranks();
  void begin_to_connect(std::span<ncclUniqueId> ids);

  /// Asks NCCL for something that is not in the stream, and waits until it is done. A watcher only
  /// knows of it if it is a call of the group.
  void request(const std::string& where, bool is_call,
               const std::function<ncclResult_t(ncclComm_t)>& ask);
  ncclResult_t state();
  void throw_if_failed() const;
  void take(ncclComm_t connected);
  void wait_until_settled(const std::string& where);
  bool is_settled(const std::string& where, Time began);
  Error time_out(const std::string& where);
  bool is_watched() const;
  bool is_overdue(Time since) const;
  Error fail(const std::string& where, ncclResult_t result);
  bool set_failure(const Error& error);
  void abort_handle(std::shared_ptr<void> owner) noexcept;

  GroupContext context_;
  std::atomic<std::chrono::milliseconds> timeout_;
  CudaDevice device_;
  CUstream stream_ = nullptr;
  DeviceEvents events_;
  std::mutex handle_mutex_;  // protects handle_, and is taken first: NCCL may block with it
  ncclComm_t handle_ = nullptr;
  bool is_closing_ = false;
  std::shared_future<void> aborted_;  // ends with the abort; none: there was no abort
  // Set by NCCL in a thread of its own, during a request().
  ncclComm_t part_ = nullptr;
  void* window_ = nullptr;
  mutable std::mutex failure_mutex_;  // protects what follows; nothing blocks with it
  std::optional<Error> failure_;
  std::function<void(const Error& error)> failed_;  // empty: there is no watcher
};

/// Polls until `is_done` returns true: NCCL and CUDA have no way to wait with a deadline. Returns
/// false if the deadline passed first. For the first 200 us it polls without pauses: the kernel
/// makes the shortest pause 60 us, longer than NCCL takes to launch a call. The first 8 polls have
/// no pauses however long they take, since on a busy machine other threads may use up that time
/// between two. Then pauses grow from 10 us to 1 ms.
template <class Question>
bool poll_until(Question is_done, std::chrono::steady_clock::time_point deadline =
                                      std::chrono::steady_clock::time_point::max()) {
  using std::chrono::microseconds;
  const auto began = std::chrono::steady_clock::now();
  microseconds pause(10);
  for (int polls = 1; !is_done(); ++polls) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    if (polls < 8 || now - began < microseconds(200)) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(1000));
  }
  return true;
}

}  // namespace ddp::internal
