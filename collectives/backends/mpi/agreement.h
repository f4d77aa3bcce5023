// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/mpi/library.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// Compares the calls of all ranks before MPI's own function is called. MPI would wait forever for
/// a rank that does not make the call, and its behaviour is undefined if calls differ.
///
/// Uses the dissemination barrier of Hensgen, Finkel and Manber (Two Algorithms for Barrier
/// Synchronization, 1988). Every message carries the least and the greatest call that its sender
/// knows. So after log2(n) steps each rank knows that all have come and whether all calls are the
/// same.
///
/// Thread: one at a time; abort() any.
class MpiAgreement {
 public:
  MpiAgreement(GroupContext& context, MpiGroup& group) : context_(context), group_(group) {}

  /// Returns when every rank has come with the same call and `ok`. Throws ddp::Error: mismatch, or
  /// the agreed error of a rank that is not `ok`; system, after abort().
  void run(const Call& call, bool ok = true);

  /// Takes part in one run() of the others without a call: each that makes one learns that this
  /// rank has left. Returns whether all others have left, too; false after abort().
  bool leave();

  /// Ends the wait for other ranks. Thread: any.
  void abort() noexcept { aborted_ = true; }

 private:
  struct Extremes;
  bool exchange(Extremes& known);

  GroupContext& context_;
  MpiGroup& group_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace ddp::internal
