// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ddp/distributed_data_parallel_options.h"
#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/types.h"

namespace ddp {

/// Data-parallel training: keeps the ranks' copies of a model identical by averaging their
/// gradients, while the backward pass still computes others.
///
///     ddp::DistributedDataParallel model(group, {weights, bias});
///     for (...) {
///       ... forward pass ...
///       ... write or add to model.gradient<float>(1) ...    the backward pass, last layer first
///       model.gradient_ready(1);
///       ... write or add to model.gradient<float>(0) ...
///       model.gradient_ready(0);
///       model.finish();
///       ... step of the optimizer; gradients back to zero if they are added to ...
///     }
///
/// Gradients are stored in buckets, and the backward pass writes them there, without a copy. A
/// bucket has gradients of one type, in the reverse order of the parameters, in which most backward
/// passes compute them. When all gradients of a bucket are ready its all_reduce is begun, in the
/// same order on all ranks and in place: a gradient that is ready must not be touched before
/// finish() returns.
///
/// After the first pass, buckets are begun in the order in which rank 0 completed them in that pass
/// (not with find_unused_parameters, where the order may vary). PyTorch then also reassigns
/// gradients to buckets; here a gradient never moves, so the program may keep pointers to it. If a
/// backward pass is far from the reverse order of the parameters, pass them in another order.
///
/// Every rank passes the same list of parameters, and makes the calls of the constructor and
/// finish() in the same order among the group's other calls; only gradient_ready may come in a
/// different order on each rank. Parameters and the group, which may be moved, must outlive this
/// object.
///
/// Errors of kind usage change nothing, unless a function says otherwise; after others the group is
/// broken.
///
/// Thread: one at a time.
class DDP_EXPORT DistributedDataParallel {
 public:
  /// How gradients are averaged.
  using Options = DistributedDataParallelOptions;
  /// Time and bytes of averaging.
  using Statistics = DistributedDataParallelStatistics;

  /// Compares the lists of all ranks, broadcasts the parameters and buffers of rank 0 (in host
  /// memory those shorter than 1 MiB in one call, up to 25 MiB), and makes the buckets. Gradients
  /// are initially zero, or as `allocate` returns the memory.
  /// Errors: usage (no parameters, a gradient of integers, some on a device and others not or with
  /// other streams, no `allocate` where it is needed, a bucket of no bytes, uneven_inputs on a
  /// device), mismatch (the lists or options differ: names two ranks and the first difference).
  DistributedDataParallel(ProcessGroup& group, const std::vector<Buffer>& parameters,
                          const Options& options = {});
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Waits for the calls that are under way. During an exception it aborts instead: an unfinished
  /// pass then breaks the group.
  ~DistributedDataParallel();

  /// The number of parameters; the index of a parameter is its position in the list.
  std::size_t size() const noexcept;

  /// The gradient of a parameter; its address does not change as long as this object exists.
  /// Errors: usage (no such parameter).
  Buffer gradient(std::size_t parameter) const;

  /// The same as elements in host memory. Errors: usage (it has another type, or is on a device).
  template <Element T>
  std::span<T> gradient(std::size_t parameter) const {
    const Buffer buffer = host_gradient(parameter, data_type<T>());
    return {static_cast<T*>(buffer.data), buffer.count};
  }

  /// Call it when the backward pass has written the gradient of this parameter, once per pass. With
  /// device memory: when the work that writes it was given to the parameter's stream. Errors: usage
  /// (no such parameter, or it was ready before in this pass), those of the group.
  void gradient_ready(std::size_t parameter);

  /// Ends the backward pass. Blocks until every gradient is the average over all ranks. With device
  /// memory it returns at once, and later work of the stream finds the averages.
  ///
  /// With find_unused_parameters, a rank uses a parameter if it was ready there in this pass or in
  /// the passes of no_sync() before it. A parameter that no rank used keeps its gradient. A
  /// parameter that only some ranks used is averaged over all; the others contribute the gradient
  /// as it is, which is zero if gradients are zeroed before each pass. Errors: usage (names
  /// parameters that were not ready; they may still follow), those of the group.
  void finish();

  /// Whether the last finish() wrote this gradient: not within no_sync(), and not with
  /// find_unused_parameters if no rank used the parameter. Errors: usage (no such parameter).
  bool was_averaged(std::size_t parameter) const;

  /// Gives every rank the buffers of rank 0 or, with uneven_inputs, of the lowest rank that has not
  /// joined. All ranks call it, between passes. Errors: usage (a gradient of this pass is ready),
  /// those of the group.
  void broadcast_buffers();

  /// With uneven_inputs: this rank has no more inputs. Blocks until every rank has called it. Until
  /// then this rank joins the others' passes with gradients of zero, so averages remain those over
  /// all ranks. Then gives every rank the parameters and buffers of the lowest of the ranks that
  /// made the last pass. On a rank that joined earlier, the optimizer's state is behind. Passes may
  /// follow, as in the next epoch. Gradients are unspecified then, and those of this rank that were
  /// not averaged are lost. Errors: usage (without uneven_inputs, in a pass, within no_sync()),
  /// those of the group.
  void join();

  /// While a NoSync exists, finish() ends a pass and averages nothing, so gradients accumulate. The
  /// first pass afterwards averages the accumulated gradients.
  class DDP_EXPORT NoSync {
   public:
    /// `other` is empty afterwards.
    NoSync(NoSync&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DistributedDataParallel;
    explicit NoSync(DistributedDataParallel* of) : of_(of) {}
    DistributedDataParallel* of_;
  };

  /// Call it between passes. Errors: usage (a gradient of this pass is ready).
  [[nodiscard]] NoSync no_sync();

  /// Whether finish() averages: no NoSync exists.
  bool is_averaging() const noexcept;

  /// The cost of the last finish() that averaged; zeros before.
  const Statistics& statistics() const noexcept;

  /// The parameters of each bucket in memory order; buckets in the order in which they are begun.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  Buffer host_gradient(std::size_t parameter, DataType type) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
