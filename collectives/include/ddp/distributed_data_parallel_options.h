// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ddp/communication_hook.h"
#include "ddp/types.h"

namespace ddp {

/// How a DistributedDataParallel averages gradients; the names of
/// torch.nn.parallel.DistributedDataParallel, with the default values of PyTorch 2 (reducer.hpp).
struct DistributedDataParallelOptions {
  /// Bytes of gradients after which a bucket is closed, for the first bucket and for the others; at
  /// least 1. The first is small so that communication begins early. 25 MiB is best for many models
  /// over NCCL, about 5 over TCP (Li et al., VLDB 2020, section 5.2).
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;

  /// Whether parameters may be left out of a backward pass. Costs a small all_reduce per pass.
  bool find_unused_parameters = false;

  /// The type of all gradients, a floating-point type. Default: each has its parameter's type.
  std::optional<DataType> gradient_type = {};

  /// Allocates the memory of a bucket, of `bytes` bytes, aligned for any element; the shared_ptr
  /// frees it. If empty, ProcessGroup::allocate() is used or, with backend nccl and parameters in
  /// host memory, zeroed memory of this process. With backend mpi, parameters on a device need a
  /// function that returns device memory, from cudaMalloc for example. Either every rank passes
  /// one, or none does.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate = {};

  /// Averages a bucket. If empty, all_reduce is used. Either every rank passes one, or none does.
  CommunicationHook hook = {};

  /// A model's state beside its parameters, such as the running means of a BatchNorm: elements of
  /// any type, in memory that outlives the model. Broadcast with the parameters, and by
  /// broadcast_buffers().
  std::vector<Buffer> buffers = {};

  /// Whether ranks may make different numbers of passes. Each rank calls join() after its last one.
  /// Between the first pass and the end of join() the group makes no other calls. Costs an
  /// all_reduce of 4 bytes per pass. Gradients have to be in host memory.
  bool uneven_inputs = false;
};

/// The cost of the last finish() that averaged gradients.
struct DistributedDataParallelStatistics {
  std::size_t bytes = 0;        ///< of gradients that this rank passed to all_reduce, or to a hook
  std::size_t all_reduces = 0;  ///< the number of calls: one per bucket
  /// The sum of the durations of the calls (with a hook: of each bucket's first call), including
  /// the time they waited for other ranks. 0 with device memory: unknown there.
  std::chrono::nanoseconds communication{0};
  std::chrono::nanoseconds waited{0};  ///< the time that finish() blocked
  std::chrono::nanoseconds hidden{0};  ///< communication that overlapped with the backward pass
};

}  // namespace ddp
