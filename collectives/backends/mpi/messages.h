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

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"
#include "collectives/backends/mpi/device.h"
#include "collectives/backends/mpi/library.h"

namespace ddp::internal {

/// Messages between two ranks, matched by MPI, beside the calls of all ranks. MPI moves data only
/// while somebody calls it: whoever waits for messages does, and a thread of our own, which is
/// started by the first that are begun, for those that nobody waits for.
///
/// The first failure ends all messages. Thread: any, several at once.
class MpiMessages {
 public:
  MpiMessages(GroupContext& context, MpiGroup& group, MpiDevice& device)
      : context_(context), group_(group), device_(device) {}
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  /// Gives up what is not done.
  ~MpiMessages();

  /// Begins all messages of the task at once; on a device when its stream has come to them, for
  /// which the caller waits.
  std::shared_ptr<AsyncCall> begin(const Task& task);

  /// Does them, and returns when they are done. Throws ddp::Error.
  void run(const Task& task);

  /// Waits for all that were begun.
  void finish();

  /// Has all messages fail with `error`, unless some failed before. The first error.
  Error fail(const Error& error);

  /// The first error.
  std::optional<Error> failure() const;

 private:
  class Message;

  std::shared_ptr<Message> post(const Task& task);
  void work_off();

  GroupContext& context_;
  MpiGroup& group_;
  MpiDevice& device_;
  std::atomic<bool> failed_ = false;
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
  std::atomic<std::uint64_t> number_ = 0;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::list<std::shared_ptr<Message>> open_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
