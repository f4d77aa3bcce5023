// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"

namespace ddp {

/// How a DistributedSampler shares out samples; the names of
/// torch.utils.data.distributed.DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;     ///< in each epoch another order; else always 0, 1, 2, ...
  std::uint64_t seed = 0;  ///< of the order; the same on every rank
  /// Where the samples cannot be shared out evenly: leaves the last ones out, else adds some from
  /// the beginning again, so that every rank has the same number of them.
  bool drop_last = false;
};

/// Which samples of a data set this rank trains on: of one order of all samples, which every rank
/// computes for itself, rank r takes those at r, r + size, r + 2 * size, ...
///
/// So the samples of step k of all ranks are the same set whatever the number of ranks, if they
/// take as many together.
///
/// The order depends on seed + epoch, the number of samples and nothing else: not on the platform,
/// the compiler, or the version of this library. It is the shuffle of Fisher and Yates, from the
/// last place down (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm P), with SplitMix64
/// (Steele, Lea, Flood, OOPSLA 2014), seeded with seed + epoch, whose numbers are taken modulo the
/// number of places, after those at the upper end of 64 bits that would favour some are thrown
/// away. Where `shuffle` is off the order is that of PyTorch; where it is on PyTorch's is another.
///
/// Talks to nobody. Thread: one at a time.
class DDP_EXPORT DistributedSampler {
 public:
  /// Errors: usage (`num_replicas` is below 1, or `rank` not from 0 to num_replicas - 1).
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     const SamplerOptions& options = {});

  /// For this rank of the group, which need not outlive it.
  DistributedSampler(std::size_t dataset_size, const ProcessGroup& group,
                     const SamplerOptions& options = {});

  /// Another order from now on, if samples are shuffled; 0 before the first call. Every rank says
  /// the same number before each epoch.
  void set_epoch(std::uint64_t epoch) noexcept { epoch_ = epoch; }

  /// How many samples this rank has in an epoch: on every rank as many.
  std::size_t size() const noexcept { return size_; }

  /// How many of them, the last ones, only fill up: those that other ranks, or this one, have as
  /// well. Leave them out to count each sample once, as in an evaluation.
  std::size_t padding() const noexcept;

  /// This epoch's samples of this rank, in their order: size() numbers below dataset_size.
  std::vector<std::size_t> indices() const;

 private:
  std::size_t dataset_size_;
  std::size_t replicas_;
  std::size_t rank_;
  SamplerOptions options_;
  std::size_t size_;
  std::uint64_t epoch_ = 0;
};

}  // namespace ddp
