// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

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
};

}  // namespace ddp::internal
