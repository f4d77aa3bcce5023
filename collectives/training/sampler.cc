// SPDX-License-Identifier: Apache-2.0
#include "ddp/sampler.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

/// The generator of Java's SplittableRandom; its first author also published it as C.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Returns a number from 0 to bound - 1, all equally likely.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t spare = (UINT64_MAX % bound + 1) % bound;  // 2^64 modulo bound
    std::uint64_t number = next();
    while (number > UINT64_MAX - spare) number = next();
    return number % bound;
  }

 private:
  std::uint64_t state_;
};

std::size_t share(std::size_t samples, std::size_t replicas, bool drop_last) {
  return samples / replicas + (!drop_last && samples % replicas != 0 ? 1 : 0);
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                                       const SamplerOptions& options)
    : dataset_size_(dataset_size),
      replicas_(static_cast<std::size_t>(std::max(num_replicas, 1))),
      rank_(static_cast<std::size_t>(std::max(rank, 0))),
      options_(options),
      size_(share(dataset_size, replicas_, options.drop_last)) {
  if (num_replicas < 1 || rank < 0 || rank >= num_replicas) {
    throw Error(ErrorKind::usage, "ddp: a sampler for rank " + std::to_string(rank) + " of " +
                                      std::to_string(num_replicas) + ": there is no such rank");
  }
}

DistributedSampler::DistributedSampler(std::size_t dataset_size, const ProcessGroup& group,
                                       const SamplerOptions& options)
    : DistributedSampler(dataset_size, group.size(), group.rank(), options) {}

std::size_t DistributedSampler::padding() const noexcept {
  const std::size_t after = rank_ < dataset_size_ ? dataset_size_ - rank_ : 0;
  return size_ - std::min(size_, share(after, replicas_, false));
}

std::vector<std::size_t> DistributedSampler::indices() const {
  std::vector<std::size_t> order(dataset_size_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options_.shuffle) {
    SplitMix64 random(options_.seed + epoch_);
    for (std::size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[random.below(left)]);
    }
  }
  std::vector<std::size_t> own(size_);
  for (std::size_t i = 0; i < size_; ++i) own[i] = order[(rank_ + i * replicas_) % dataset_size_];
  return own;
}

}  // namespace ddp
