// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"
#include "collectives/backends/mpi/device.h"
#include "collectives/backends/mpi/library.h"

namespace ddp::internal {

/// Messages between two ranks, matched by MPI, beside the collective calls. MPI makes progress only
/// inside its own functions. So a thread that waits for messages calls MPI_Test itself. For the
/// other messages a thread of this class, started by the first begin(), does so.
///
/// The first failure ends all messages. Thread: any, several at once.
class MpiMessages {
 public:
  MpiMessages(GroupContext& context, MpiGroup& group, MpiDevice& device)
      : context_(context), group_(group), device_(device) {}
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  /// Fails the incomplete messages.
  ~MpiMessages();

  /// Begins all messages of the task at once. With buffers on a device, first waits until the
  /// task's stream has come to them.
  std::shared_ptr<AsyncCall> begin(const Task& task);

  /// Returns when the task's messages are complete. Throws ddp::Error.
  void run(const Task& task);

  /// Waits for all messages that were begun.
  void finish();

  /// Makes all messages fail with `error`, unless there was a failure before. Returns the first
  /// failure.
  Error fail(const Error& error);

  /// The first failure.
  std::optional<Error> failure() const;

 private:
  class MessageCall;

  std::shared_ptr<MessageCall> post(const Task& task);
  void progress_in_background();

  GroupContext& context_;
  MpiGroup& group_;
  MpiDevice& device_;
  std::atomic<bool> failed_ = false;
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
  std::atomic<std::uint64_t> number_ = 0;

  std::mutex mutex_;  // protects all that follows
  std::condition_variable changed_;
  std::list<std::shared_ptr<MessageCall>> open_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
