// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nccl.h>

#include "ddp/error.h"

namespace ddp::internal {

/// Calls of this thread that NCCL is to start together, whatever their communicators: between
/// ncclGroupStart and ncclGroupEnd. Groups nest; the outermost counts.
///
/// No communicator is aborted while a group that is open has calls of it: NCCL's group would end
/// with what is gone, and NCCL before 2.22 takes no abort in a group.
class NcclGroup {
 public:
  /// Makes the `calls` in a group. Throws what they throw, else the first error of fail(), else
  /// what the work of after() throws, else that of ncclGroupEnd; when all is done.
  static void run(const std::function<void()>& calls);

  static bool is_open();

  /// From now until it ends, the open group has calls of the communicator. Nothing without one.
  static void enlist(ncclComm_t handle);

  /// A call of the open group has failed, and NCCL starts none of them. Nothing without one.
  static void fail(const Error& error);

  /// Does the work at once, or, in a group, when that has ended: what comes after NCCL's calls in a
  /// stream, and the wait for a communicator that may not be used yet.
  static void after(const std::function<void()>& work);

  /// ncclCommAbort, which may wait for what runs on the device. In a group of this thread when that
  /// has ended; within abort_together() of this thread at its end; after the groups of other
  /// threads that have calls of it. Until then `owner` is kept. The communicator must not be used
  /// any more, but for the groups that have it. Does not throw.
  static void abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept;

  /// Does the work, and ends what that aborts at once: one communicator after the other could wait
  /// for ever, the first for a kernel of the second. Does not throw if `work` does not.
  static void abort_together(const std::function<void()>& work);
};

}  // namespace ddp::internal
