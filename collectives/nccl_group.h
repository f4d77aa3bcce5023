// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nccl.h>

namespace ddp::internal {

/// Calls of this thread that NCCL is to start together, whatever their communicators: between
/// ncclGroupStart and ncclGroupEnd. Groups nest; the outermost counts.
class NcclGroup {
 public:
  static void start();

  /// Throws what the work of after() throws, the first of it, when all of it was done.
  static void end();

  static bool is_open();

  /// Does the work at once, or, in a group, when that has ended: what comes after NCCL's calls in a
  /// stream, and the wait for a communicator that may not be used yet.
  static void after(const std::function<void()>& work);

  /// ncclCommAbort, which may wait for what runs on the device: within abort_together() of this
  /// thread at its end. Until then `owner` is kept. Does not throw.
  static void abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept;

  /// Does the work, and ends what that aborts at once: one communicator after the other could wait
  /// for ever, the first for a kernel of the second. Does not throw if `work` does not.
  static void abort_together(const std::function<void()>& work);
};

}  // namespace ddp::internal
