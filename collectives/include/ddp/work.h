// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "ddp/error.h"
#include "ddp/export.h"

namespace ddp {

namespace internal {
class AsyncCall;
}  // namespace internal

/// A call that was begun: what the i... calls of ProcessGroup return. Copies are of the same call.
/// Nobody has to wait: a call goes on without its Work, and a failure that nobody waits for is
/// thrown by the group's next call.
///
/// The call's buffers must stay until it is completed, and what it writes is unspecified before.
/// The names of torch.distributed.Work.
///
/// Thread: any, several at once.
class DDP_EXPORT Work {
 public:
  /// For this library.
  explicit Work(std::shared_ptr<internal::AsyncCall> call);

  /// Whether this rank's part is over, well or not. Never blocks.
  bool is_completed() const;

  /// Why it failed; nothing while it runs and when it went well. Never blocks.
  std::optional<Error> error() const;

  /// Buffers in host memory, or with backend mpi: returns when this rank's part is done. With nccl
  /// in device memory: returns at once. What the call's stream is given from now on runs after it.
  /// Errors: of the call.
  void wait() const;

  /// Returns when this rank's part is done, wherever the buffers are. Errors: of the call;
  /// timed_out, if it is not done after `timeout`: the call goes on, and the group is not broken.
  void wait(std::chrono::milliseconds timeout) const;

  /// How long this rank's part took, from its turn, after the calls that were begun before, to its
  /// end: waiting for other ranks is part of it. Nothing before its end, and where it is not known:
  /// with nccl in device memory, or if there was nothing to do. Never blocks.
  std::optional<std::chrono::nanoseconds> duration() const;

 private:
  std::shared_ptr<internal::AsyncCall> pending_;
};

}  // namespace ddp
