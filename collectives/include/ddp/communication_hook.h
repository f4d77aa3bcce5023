// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ddp/types.h"
#include "ddp/work.h"

namespace ddp {

/// Gradients that are averaged together: a bucket, or the used part of one. They are adjacent in
/// memory.
struct GradientBucket {
  /// One of the gradients.
  struct Part {
    std::size_t parameter = 0;  ///< its index
    Buffer gradient;            ///< a part of `memory`
  };
  Buffer memory;                ///< all gradients
  std::span<const Part> parts;  ///< in memory order; exists during the call of the hook only
};

/// An average under way.
struct BegunAverage {
  Work work;                          ///< the first call
  std::function<void()> finish = {};  ///< the rest: see CommunicationHook
};

/// Averages the gradients of a bucket over all ranks, in place. DistributedDataParallel calls it
/// instead of all_reduce, for example to send less data. The hook begins a call of the group and
/// returns at once. DistributedDataParallel::finish() waits for that call, as Work::wait() does,
/// and calls `finish`. `finish` may make further calls, and owns the memory that all these calls
/// use. All ranks use the same hook, and call hooks, and later their `finish`, in the same order.
using CommunicationHook = std::function<BegunAverage(const GradientBucket& bucket)>;

}  // namespace ddp
