// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nccl.h>

#include "ddp/error.h"

namespace ddp::internal {

/// Groups of calls, of any communicators, that NCCL starts together: ncclGroupStart to
/// ncclGroupEnd. A group belongs to a thread. Groups nest; the outermost counts.
///
/// A communicator is not aborted while an open group has calls of it: ncclGroupEnd would use a
/// freed communicator.
class NcclGroup {
 public:
  /// Makes the `calls` in a group and ends it. Throws the first of: what `calls` throw, the first
  /// error of fail(), what the work of after() throws, the error of ncclGroupEnd.
  static void run(const std::function<void()>& calls);

  /// Whether this thread is in a group. If it is not, the functions below do nothing, or their work
  /// at once.
  static bool is_open();

  /// Registers that the open group has calls of this communicator, until the group ends.
  static void add_member(ncclComm_t handle);

  /// Registers that a call of the open group has failed, for run() to throw.
  static void fail(const Error& error);

  /// Does the work when the group has ended. Only then does NCCL put the group's calls into
  /// streams, so whatever follows them in a stream, and every wait for them, must come later.
  static void after(const std::function<void()>& work);

  /// Calls ncclCommAbort, which may wait for kernels that run on the device. Defers it to the end
  /// of this thread's group or of abort_together(), and waits for groups of other threads that have
  /// calls of the communicator. Keeps `owner` until it is done. After this, only the end of such
  /// groups may use the communicator. Does not throw.
  static void abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept;

  /// Runs `work`, then aborts at once all communicators that `work` has passed to abort(). One
  /// after the other could hang: aborting the first may wait for its kernel, which waits for a
  /// kernel of the second. Does not throw unless `work` does.
  static void abort_together(const std::function<void()>& work);
};

}  // namespace ddp::internal
