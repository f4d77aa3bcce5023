// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <nccl.h>

#include "ddp/error.h"

namespace ddp::internal {

/// Groups of calls that NCCL starts together, of any communicators: ncclGroupStart to ncclGroupEnd,
/// which belong to a thread. Groups nest; the outermost counts.
///
/// A communicator is not aborted while an open group has calls of it: ncclGroupEnd would use a
/// communicator that is freed.
class NcclGroup {
 public:
  /// Makes the `calls` in a group and ends it. Throws the first of: what `calls` throw, the first
  /// error of fail(), what the work of after() throws, the error of ncclGroupEnd.
  static void run(const std::function<void()>& calls);

  /// Whether this thread is in a group. The functions below do nothing, or their work at once, if
  /// it is not.
  static bool is_open();

  /// Registers that the open group has calls of this communicator, until the group ends.
  static void add_member(ncclComm_t handle);

  /// Registers that a call of the open group has failed, for run() to throw.
  static void fail(const Error& error);

  /// Does the work when the group has ended: NCCL puts the group's calls into streams only then, so
  /// what follows them in a stream, and every wait for them, must come later.
  static void after(const std::function<void()>& work);

  /// ncclCommAbort, which may wait for kernels that run on the device. It is deferred to the end of
  /// this thread's group or of abort_together(), and waits for groups of other threads that have
  /// calls of the communicator. `owner` is kept until it is done. After this, the communicator may
  /// be used only by the end of such groups. Does not throw.
  static void abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept;

  /// Runs `work`, then aborts all communicators that it abort()ed at once. One after the other
  /// could hang: aborting the first may wait for its kernel, which waits for a kernel of the
  /// second. Does not throw unless `work` does.
  static void abort_together(const std::function<void()>& work);
};

}  // namespace ddp::internal
