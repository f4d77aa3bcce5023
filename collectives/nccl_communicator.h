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

#include "collectives/meeting.h"
#include "collectives/nccl_device.h"
#include "ddp/error.h"

namespace ddp::internal {

/// NCCL's communicator of one rank of a group, with the GPU and the stream that it works on.
///
/// It is a non-blocking one (ncclConfig_t::blocking = 0): no call of NCCL holds up a thread of the
/// host for ever. What NCCL has not taken in yet is asked for again and again, for it has no other
/// way of telling, until the group's timeout.
///
/// The first failure breaks it: it becomes the group's verdict, and ncclCommAbort ends NCCL's work
/// on the device, so that streams go on. Every later call throws that same failure.
///
/// Thread: calls are given by one at a time; failure(), fail() and abort() are for any.
class NcclCommunicator {
 public:
  /// Not connected yet.
  NcclCommunicator(Meeting meeting, int device);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Aborts, if it is not closed.
  ~NcclCommunicator();

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

  /// The same, after waiting in vain for the group's timeout, and for what was thrown on the way.
  Error fail_waiting(const std::string& where);
  Error fail(const std::string& where, const Error& thrown);

  /// Breaks it without a word to the others.
  void abort() noexcept;

  /// Waits for the other ranks, and for all calls. Nothing but the destructor is called after.
  void close() noexcept;

  const Meeting& meeting() const { return meeting_; }
  const NcclDevice& device() const { return device_; }
  CUstream stream() const { return stream_; }

 private:
  ncclUniqueId meet();
  void begin_to_connect(const ncclUniqueId& id);
  ncclResult_t state();
  void settle(const std::string& where);
  Error fail(const std::string& where, ncclResult_t result);
  void set_failure(const Error& error);
  void abort_handle() noexcept;

  Meeting meeting_;
  NcclDevice device_;
  CUstream stream_ = nullptr;
  mutable std::mutex mutex_;  // of the next two, and of every use of the first
  ncclComm_t handle_ = nullptr;
  std::optional<Error> failure_;
};

}  // namespace ddp::internal
