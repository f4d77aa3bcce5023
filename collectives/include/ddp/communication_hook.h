// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ddp/types.h"
#include "ddp/work.h"

namespace ddp {

/// Gradients that are averaged together: a bucket, or the part of one that was used. They are next
/// to each other in memory.
struct GradientBucket {
  /// One of them.
  struct Part {
    std::size_t parameter = 0;  ///< its index
    Buffer gradient;            ///< a part of `memory`
  };
  Buffer memory;                ///< all of them
  std::span<const Part> parts;  ///< in memory order; exists during the call of the hook only
};

/// An average that was begun.
struct BegunAverage {
  Work work;                          ///< the first call
  std::function<void()> finish = {};  ///< the rest: see CommunicationHook
};

/// Averages the gradients of a bucket over all ranks, in place: what DistributedDataParallel uses
/// instead of all_reduce, to send less or to something else. The hook begins a call of the group
/// and returns at once. DistributedDataParallel::finish() waits for that call, as Work::wait()
/// does, and calls `finish`, which may make further calls, and which owns the memory that all of
/// them use. Hooks, and later their `finish`, are called in the same order on all ranks, all of
/// which use the same hook.
using CommunicationHook = std::function<BegunAverage(const GradientBucket& bucket)>;

}  // namespace ddp
