// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "collectives/backends/group_context.h"
#include "collectives/backends/mpi/library.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// Has all ranks say which call they make, before MPI's own function for it is called: that would
/// wait for ever for a rank that does not come, and do anything at all where calls differ.
///
/// The dissemination of Hensgen, Finkel and Manber (Two Algorithms for Barrier Synchronization,
/// 1988), in which every message carries the least and the greatest call that its sender knows of:
/// after log2(n) steps every rank has come, and each knows whether all calls are the same.
///
/// Thread: one at a time; abort() any.
class MpiAgreement {
 public:
  MpiAgreement(GroupContext& context, MpiGroup& group) : context_(context), group_(group) {}

  /// Returns when every rank has come with the same call and `content`. Throws ddp::Error:
  /// mismatch, or the agreed error of a rank that is not content; system, after abort().
  void run(const Call& call, bool content = true);

  /// Ends the wait for others.
  void abort() noexcept { aborted_ = true; }

 private:
  GroupContext& context_;
  MpiGroup& group_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace ddp::internal
