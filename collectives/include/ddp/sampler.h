// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"

namespace ddp {

/// How a DistributedSampler distributes samples; the names of
/// torch.utils.data.distributed.DistributedSampler.
struct SamplerOptions {
  bool shuffle = true;     ///< in a different order in each epoch; else always 0, 1, 2, ...
  std::uint64_t seed = 0;  ///< of the order; must be the same on every rank
  /// If the samples cannot be divided evenly: drops the last ones, else repeats some from the
  /// beginning. Every rank has the same number in both cases.
  bool drop_last = false;
};

/// Selects the samples of a data set that this rank trains on. Every rank computes the same order
/// of all samples; rank r takes those at r, r + size, r + 2 * size, ...
///
/// So step k has the same set of samples for every number of ranks with the same total batch size.
///
/// The order depends only on seed + epoch and the number of samples, not on the platform, the
/// compiler or the version of this library. It is the Fisher-Yates shuffle from the last place down
/// (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm P) with SplitMix64 (Steele, Lea,
/// Flood, OOPSLA 2014), seeded with seed + epoch. Its numbers are taken modulo the number of
/// places; those at the upper end of 64 bits that would cause a bias are skipped. Without `shuffle`
/// the order is that of PyTorch; with it the order differs from PyTorch's.
///
/// Does not communicate. Thread: one at a time.
class DDP_EXPORT DistributedSampler {
 public:
  /// Errors: usage (`num_replicas` is below 1, or `rank` not from 0 to num_replicas - 1).
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     const SamplerOptions& options = {});

  /// Takes rank and size of the group, which need not outlive the sampler.
  DistributedSampler(std::size_t dataset_size, const ProcessGroup& group,
                     const SamplerOptions& options = {});

  /// Selects the order of this epoch, if samples are shuffled; initially that of epoch 0. Every
  /// rank must pass the same number, before each epoch.
  void set_epoch(std::uint64_t epoch) noexcept { epoch_ = epoch; }

  /// The number of samples of each rank in an epoch; the same on every rank.
  std::size_t size() const noexcept { return size_; }

  /// The number of this rank's samples, at its end, that are repeated only to make the ranks even.
  /// Skip them to count each sample once, as in an evaluation.
  std::size_t padding() const noexcept;

  /// The samples of this rank in this epoch, in order: size() numbers below dataset_size.
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
