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

/// Keeps the copies of a model that the ranks of a group train the same: averages their gradients
/// while the backward pass still computes others.
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
/// Gradients lie side by side in buckets, and the backward pass writes them there: nothing is
/// copied. A bucket has gradients of one type, in the reverse order of parameters, in which most
/// backward passes compute them. As soon as all gradients of a bucket are ready its all_reduce is
/// begun, in the same order on all ranks; it is in place, so a gradient that is ready is not
/// touched again before finish() returns.
///
/// After the first pass the buckets are begun in the order in which rank 0 completed them in that
/// pass (but not with find_unused_parameters, as there may be no such order). PyTorch also puts
/// gradients into other buckets then; here a gradient stays where it is for good, so that the
/// program may keep pointers to it. A model whose backward pass is far from the reverse order of
/// its parameters gives them in another order.
///
/// Every rank gives the same list of parameters and makes the same calls of finish() and the
/// constructor, among those of the group; only gradient_ready may come in another order on each.
/// Parameters and the group outlive it.
///
/// Errors of kind usage leave everything as it was, unless a function says otherwise; after others
/// the group is broken.
///
/// Thread: one at a time.
class DDP_EXPORT DistributedDataParallel {
 public:
  using Options = DistributedDataParallelOptions;
  using Statistics = DistributedDataParallelStatistics;

  /// Compares the lists of all ranks, gives all of them the parameters of rank 0, and makes the
  /// buckets, whose gradients begin as zeros (in memory of `allocate`: as that is).
  /// Errors: usage (no parameters, a gradient of integers, some on a device and others not or with
  /// other streams, no `allocate` where it is needed, a bucket of no bytes), mismatch (the lists or
  /// options differ: names two ranks and the first difference).
  DistributedDataParallel(ProcessGroup& group, const std::vector<Buffer>& parameters,
                          const Options& options = {});
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Waits for what is under way. While an exception is on its way nobody is waited for: an
  /// unfinished pass then breaks the group.
  ~DistributedDataParallel();

  /// How many parameters there are; their index is their place in the list.
  std::size_t size() const noexcept;

  /// Where the gradient of a parameter is, for as long as this object is. Errors: usage (there is
  /// no such parameter).
  Buffer gradient(std::size_t parameter) const;

  /// The same in host memory. Errors: usage (of another type, or on a device).
  template <Element T>
  std::span<T> gradient(std::size_t parameter) const {
    const Buffer buffer = host_gradient(parameter, data_type<T>());
    return {static_cast<T*>(buffer.data), buffer.count};
  }

  /// The backward pass has written the gradient of this parameter: once for each in every pass.
  /// Device memory: what the parameter's stream was given before writes it.
  /// Errors: usage (there is no such parameter, or it was ready before in this pass), those of the
  /// group.
  void gradient_ready(std::size_t parameter);

  /// The backward pass is over. Returns when every gradient is the average over all ranks (device
  /// memory: when what the stream is given from now on finds it so).
  ///
  /// With find_unused_parameters, a parameter that no rank used, that is, had ready in this pass or
  /// in one of no_sync() before it, keeps its gradient; one that only some ranks used is averaged
  /// over all, and where it was not used its gradient counts as it is: zero, if gradients are set
  /// to zero before each pass. Errors: usage (not all parameters were ready: names those, and they
  /// may still follow), those of the group.
  void finish();

  /// As long as one of these exists passes only add up: their finish() ends them and averages
  /// nothing. The first pass after it averages what they have written, too.
  class DDP_EXPORT NoSync {
   public:
    /// `other` ends no scope any more.
    NoSync(NoSync&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync();

   private:
    friend class DistributedDataParallel;
    explicit NoSync(DistributedDataParallel* of) : of_(of) {}
    DistributedDataParallel* of_;
  };

  /// Between passes, before the first gradient is ready. Errors: usage (in a pass).
  [[nodiscard]] NoSync no_sync();

  /// Of the last finish() that averaged; zeros before.
  const Statistics& statistics() const noexcept;

  /// The parameters of each bucket, as they lie there; buckets in the order they are begun in.
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  Buffer host_gradient(std::size_t parameter, DataType type) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
