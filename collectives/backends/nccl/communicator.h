// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cuda.h>
#include <functional>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <optional>
#include <span>
#include <string>

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/group_context.h"
#include "ddp/error.h"

namespace ddp::internal {

/// NCCL's communicator of one rank of a group, with the GPU and the stream that it works on.
///
/// It is a non-blocking one (ncclConfig_t::blocking = 0): no call of NCCL holds up a thread of the
/// host for ever. What NCCL has not taken in yet is asked for again and again, for it has no other
/// way of telling, until the group's timeout.
///
/// The first failure breaks it: it becomes the group's agreed error, and ncclCommAbort ends NCCL's
/// work on the device, so that streams go on. Every later call throws that same failure. Who
/// watches it sees to the abort, together with those of the process's other communicators, and to
/// time-outs.
///
/// Thread: calls are given by one at a time; watch(), failure(), fail() and abort() are for any.
class NcclCommunicator : public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Not connected yet.
  NcclCommunicator(GroupContext context, int device);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Aborts, if it is not closed.
  ~NcclCommunicator();

  /// From now on `failed` is told the first failure, unless it is an abort(), and calls that.
  void watch(std::function<void(const Error& error)> failed);

  /// Joins the other ranks through the store. Errors name the ranks that did not come.
  void connect();

  /// The same for ranks that are all in this process.
  static void connect_together(std::span<const std::shared_ptr<NcclCommunicator>> ranks);

  /// NCCL starts all of the `calls`, which throw what accept() does, together. Returns when it has
  /// taken them in; in a group of calls of this thread, at once. `where` is as agree_on() has it.
  void launch(const std::string& where, const std::function<void(ncclComm_t)>& calls);

  /// Throws the result, if it is a failure; for the calls of launch().
  static void accept(ncclResult_t result);

  /// Throws the failure, when there was one or NCCL tells one now.
  void look_for_failure(const std::string& where);

  std::optional<Error> failure() const;

  /// Breaks the communicator; `sentence` begins after "rank N ". Returns the first failure.
  Error fail(const std::string& where, ErrorKind kind, const std::string& sentence);

  /// The same, for what was thrown on the way.
  Error fail(const std::string& where, const Error& thrown);

  /// Breaks it without a word to the others.
  void abort() noexcept;

  /// Waits for the other ranks, and for all calls. Nothing but the destructor is called after.
  void close() noexcept;

  const GroupContext& context() const { return context_; }
  const CudaDevice& device() const { return device_; }
  CUstream stream() const { return stream_; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  ncclUniqueId meet();
  void begin_to_connect(const ncclUniqueId& id);
  ncclResult_t state();
  void settle(const std::string& where);
  bool is_settled(const std::string& where, Time began);
  bool is_overdue(Time since) const;
  Error fail(const std::string& where, ncclResult_t result);
  bool set_failure(const Error& error);
  void abort_handle(std::shared_ptr<void> owner) noexcept;

  GroupContext context_;
  CudaDevice device_;
  CUstream stream_ = nullptr;
  mutable std::mutex mutex_;  // of what follows, and of every use of the first
  ncclComm_t handle_ = nullptr;
  std::optional<Error> failure_;
  std::function<void(const Error& error)> failed_;  // none: nobody watches
};

}  // namespace ddp::internal
