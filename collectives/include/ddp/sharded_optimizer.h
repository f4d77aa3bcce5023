// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/types.h"

namespace ddp {

/// Data-parallel training in which each rank keeps the optimizer's state of its share of the
/// parameters only (ZeRO stage 1; Rajbhandari et al., SC 2020). reduce_scatter averages a bucket of
/// gradients and gives each rank its share. The rank updates that share of the parameters, and
/// all_gather gives it to the others. Both together send as much as all_reduce does.
///
///     ddp::ShardedOptimizer optimizer(group, {weights, bias});
///     std::vector<float> momentum(optimizer.size());
///     for (...) {
///       ... write gradients of optimizer.model(), gradient_ready() ...
///       optimizer.model().finish();
///       optimizer.step([&](const ddp::ShardedOptimizer::Shard& shard) {
///         auto* parameter = static_cast<float*>(shard.parameters.data);
///         auto* gradient = static_cast<float*>(shard.gradients.data);
///         for (std::size_t i = 0; i < shard.parameters.count; ++i) {
///           momentum[shard.first + i] = 0.9F * momentum[shard.first + i] + gradient[i];
///           parameter[i] -= 0.1F * momentum[shard.first + i];
///         }
///       });
///     }
///
/// The optimizer has to update each element by itself, as SGD and Adam do. Parameters and the
/// group, which may be moved, must outlive this object. Thread: one at a time.
class DDP_EXPORT ShardedOptimizer {
 public:
  /// This rank's share of a bucket.
  struct Shard {
    Buffer parameters;      ///< to be updated
    ConstBuffer gradients;  ///< their averages, as many
    std::size_t first = 0;  ///< elements of this rank in the buckets before it
  };

  /// Makes a DistributedDataParallel of these parameters with these options.
  /// Errors: those of DistributedDataParallel, usage (a hook, find_unused_parameters or
  /// uneven_inputs in the options, parameters on a device).
  ShardedOptimizer(ProcessGroup& group, const std::vector<Buffer>& parameters,
                   const DistributedDataParallelOptions& options = {});
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;
  ~ShardedOptimizer();

  /// The model of the backward pass. Its finish() averages only this rank's share of the gradients;
  /// the rest is unspecified then.
  DistributedDataParallel& model() noexcept;

  /// The number of elements that this rank updates. All ranks together update all elements; one
  /// rank has at most one element more of each bucket than another.
  std::size_t size() const noexcept;

  /// Calls `update` for each bucket's share, and gives every rank the updated parameters. All ranks
  /// call it, after a finish() that averaged. Copies the parameters of one bucket at a time.
  /// Errors: usage (the last finish() did not average, or there was none), those of the group, and
  /// what `update` throws: the group is unusable then.
  void step(const std::function<void(const Shard& shard)>& update);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
