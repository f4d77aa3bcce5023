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

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/group_context.h"
#include "ddp/error.h"

namespace ddp::internal {

/// NCCL's communicator of one rank of a group, with its GPU and a stream of its own.
///
/// It is non-blocking (ncclConfig_t::blocking = 0). A blocking one holds the calling thread inside
/// NCCL until the peers come, for ever if one does not, and cannot be aborted while it connects.
/// With a non-blocking one NCCL returns ncclInProgress, and ncclCommGetAsyncError is polled, the
/// only way to learn the result, until the group's timeout. Should a function of NCCL block all the
/// same, so does abort(), but never failure(): the process's watchdog goes on, and ends it.
///
/// The first failure becomes the group's agreed error; later calls throw it. After that, and not
/// before, ncclCommAbort ends NCCL's kernels on the device, so that streams go on: peers that see
/// the communicator end find the cause in the store. If a watcher is set, it aborts the
/// communicator, together with the process's others (NcclGroup::abort_together()), and it sees to
/// timeouts.
///
/// Thread: one at a time for calls; watch(), set_timeout(), failure(), fail() and abort() from any.
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

  /// Of what it is asked for from now on, and of which no watcher sees to the timeout.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  /// Connects to the other ranks, which are found through the store. Errors name ranks that did not
  /// join.
  void connect();

  /// The same for ranks that are all in this process.
  static void connect_together(std::span<const std::shared_ptr<NcclCommunicator>> ranks);

  /// Connects parts of the group: `part` to the ranks that give the same color, at the place that
  /// the keys tell; null: this rank is in none. All ranks of the group call it, while none of its
  /// calls is under way.
  void split(int color, int key, NcclCommunicator* part);

  /// Connects `part`, of all ranks but `excluded`, which do not call it. Only with NCCL 2.27 and
  /// later; while none of the group's calls is under way.
  void shrink(std::vector<int> excluded, NcclCommunicator& part);

  /// The handle by which NCCL knows memory; at most one of the two.
  struct Registration {
    void* window = nullptr;
    void* handle = nullptr;
  };

  /// Registers memory of ncclMemAlloc(): as a symmetric window where NCCL has them and ranks are
  /// not all in this process, for which all ranks call it alike; else for this rank alone.
  Registration register_memory(void* memory, std::size_t bytes);

  /// Undoes that, unless the communicator has ended, which does it, too: waits for an abort that is
  /// under way.
  void deregister(const Registration& registration) noexcept;

  /// Makes the `calls` of NCCL in a group, each of them wrapped in check(). Returns when NCCL has
  /// put them into the stream; inside a group of the caller's, at once. `where` is that of
  /// agree_on().
  void launch(const std::string& where, const std::function<void(ncclComm_t)>& calls);

  /// For the calls of launch(): makes it fail if the result is an error.
  static void check(ncclResult_t result);

  /// Throws the failure, including one that NCCL reports only now.
  void check_async_error(const std::string& where);

  std::optional<Error> failure() const;

  /// Fails the communicator with "rank N SENTENCE". Returns the first failure.
  Error fail(const std::string& where, ErrorKind kind, const std::string& sentence);

  /// Fails it with an error that was thrown in a call.
  Error fail(const std::string& where, const Error& thrown);

  /// Fails it without notifying the other ranks.
  void abort() noexcept;

  /// Waits for all calls, and for the other ranks. Only the destructor may be called after it.
  void close() noexcept;

  const GroupContext& context() const { return context_; }
  const CudaDevice& device() const { return device_; }
  CUstream stream() const { return stream_; }

  /// For its calls.
  DeviceEvents& events() { return events_; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  std::vector<ncclUniqueId> exchange_ids();
  std::vector<ncclUniqueId> read_ids(int each);
  void meet_ranks();
  void begin_to_connect(std::span<ncclUniqueId> ids);

  /// Asks NCCL for something that is not in the stream, and waits until it is done. Only of a call
  /// of the group a watcher knows.
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
  std::mutex handle_mutex_;  // of every use of handle_: NCCL may block with it; taken first
  ncclComm_t handle_ = nullptr;
  bool is_closing_ = false;
  std::shared_future<void> aborted_;  // of the abort; none: there was none
  // Set by NCCL in a thread of its own, during a request().
  ncclComm_t part_ = nullptr;
  void* window_ = nullptr;
  mutable std::mutex failure_mutex_;  // of what follows; nothing blocks with it
  std::optional<Error> failure_;
  std::function<void(const Error& error)> failed_;  // empty: there is no watcher
};

/// Polls for something that NCCL and CUDA have no way to wait for with a deadline, until `is_done`
/// returns true. Without pauses for 200 us, since the kernel makes the shortest one 60 us, longer
/// than NCCL takes to launch a call, and for 8 polls however long they take, since on a busy
/// machine other threads may use up that time between two; then after pauses of 10 us at first and
/// 1 ms at most. False: the deadline passed first.
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
