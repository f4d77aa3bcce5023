// SPDX-License-Identifier: Apache-2.0
#include "ddp/sharded_optimizer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "collectives/call/call.h"
#include "collectives/group/group_access.h"
#include "collectives/group/group_member.h"
#include "collectives/training/packing.h"

namespace ddp {
namespace {

using internal::GroupMember;
using internal::size_of;

/// A bucket's elements, spread over the ranks.
struct ShardedBucket {
  std::vector<Buffer> parameters = {};   ///< in memory order
  Buffer gradients = {};                 ///< this rank's share
  std::vector<std::size_t> counts = {};  ///< by rank
  std::size_t offset = 0;                ///< where this rank's share begins
  std::size_t first = 0;                 ///< see ShardedOptimizer::Shard
};

/// Spreads as evenly as possible, the longer shares first.
std::vector<std::size_t> spread(std::size_t count, std::size_t ranks) {
  std::vector<std::size_t> counts(ranks, count / ranks);
  for (std::size_t rank = 0; rank < count % ranks; ++rank) ++counts[rank];
  return counts;
}

/// Returns `count` elements, from `first` on.
Buffer slice(Buffer of, std::size_t first, std::size_t count) {
  of.data = static_cast<std::byte*>(of.data) + first * size_of(of.type);
  of.count = count;
  return of;
}

[[noreturn]] void refuse_sharded(const GroupMember& group, const std::string& what) {
  const int rank = group.context.named(group.context.rank);
  throw Error(ErrorKind::usage, "ddp: rank " + std::to_string(rank) + ": ShardedOptimizer " + what);
}

void check_shardable(const GroupMember& group, const std::vector<Buffer>& parameters,
                     const DistributedDataParallelOptions& options) {
  const auto refuse = [&](const std::string& what) { refuse_sharded(group, "with " + what); };
  if (options.hook) refuse("a communication hook: it has one of its own");
  if (options.find_unused_parameters) refuse("find_unused_parameters: each pass has to use all");
  if (options.uneven_inputs) refuse("uneven_inputs: all ranks have to make each step");
  for (const Buffer& parameter : parameters) {
    if (parameter.on_device) refuse("parameters on a device: they have to be in host memory");
    if (options.gradient_type && parameter.type != parameters.front().type) {
      refuse("gradient_type and parameters of several types");
    }
  }
}

}  // namespace

struct ShardedOptimizer::Impl {
  Impl(ProcessGroup& of, const std::vector<Buffer>& parameters,
       const DistributedDataParallelOptions& options)
      : group(internal::GroupAccess::member(of)),
        model(of, parameters, with_hook(parameters, options)) {
    for (const auto& bucket : model.buckets()) add(bucket, parameters);
  }

  DistributedDataParallelOptions with_hook(const std::vector<Buffer>& parameters,
                                           DistributedDataParallelOptions options) {
    check_shardable(group, parameters, options);
    options.hook = [this](const GradientBucket& bucket) { return begin(bucket); };
    return options;
  }

  void add(const std::vector<std::size_t>& members, const std::vector<Buffer>& parameters);
  BegunAverage begin(const GradientBucket& ready) const;
  void step(const ShardedBucket& bucket, const std::function<void(const Shard&)>& update);

  GroupMember& group;
  std::vector<ShardedBucket> buckets;
  std::map<std::size_t, std::size_t> bucket_of;  ///< by its first parameter
  std::size_t size = 0;
  std::vector<std::byte> copies;  ///< a bucket's parameters
  DistributedDataParallel model;
};

void ShardedOptimizer::Impl::add(const std::vector<std::size_t>& members,
                                 const std::vector<Buffer>& parameters) {
  const auto rank = static_cast<std::size_t>(group.context.rank);
  ShardedBucket bucket{.gradients = model.gradient(members.front()), .first = size};
  std::size_t count = 0;
  for (const std::size_t parameter : members) {
    bucket.parameters.push_back(parameters[parameter]);
    count += parameters[parameter].count;
  }
  bucket.counts = spread(count, static_cast<std::size_t>(group.context.size));
  for (std::size_t r = 0; r < rank; ++r) bucket.offset += bucket.counts[r];
  bucket.gradients = slice(bucket.gradients, bucket.offset, bucket.counts[rank]);
  size += bucket.counts[rank];
  copies.resize(std::max(copies.size(), internal::packed_bytes(bucket.parameters)));
  bucket_of[members.front()] = buckets.size();
  buckets.push_back(std::move(bucket));
}

BegunAverage ShardedOptimizer::Impl::begin(const GradientBucket& ready) const {
  const ShardedBucket& bucket = buckets[bucket_of.at(ready.parts.front().parameter)];
  return {group.begin(
      group.make.reduce_scatter_v(ready.memory, bucket.gradients, bucket.counts, ReduceOp::avg))};
}

/// Copies parameters to send them: they are not adjacent, as their gradients are.
void ShardedOptimizer::Impl::step(const ShardedBucket& bucket,
                                  const std::function<void(const Shard&)>& update) {
  internal::pack(bucket.parameters, copies.data());
  const DataType type = bucket.parameters.front().type;
  const Buffer all(copies.data(), copies.size() / size_of(type), type);
  const Buffer own = slice(all, bucket.offset, bucket.gradients.count);
  update({own, bucket.gradients, bucket.first});
  const std::size_t count = std::reduce(bucket.counts.begin(), bucket.counts.end());
  group.run(group.make.all_gather_v(own, slice(all, 0, count), bucket.counts));
  internal::unpack(bucket.parameters, copies.data());
}

ShardedOptimizer::ShardedOptimizer(ProcessGroup& group, const std::vector<Buffer>& parameters,
                                   const DistributedDataParallelOptions& options)
    : impl_(std::make_unique<Impl>(group, parameters, options)) {}

ShardedOptimizer::~ShardedOptimizer() = default;

DistributedDataParallel& ShardedOptimizer::model() noexcept {
  return impl_->model;
}

std::size_t ShardedOptimizer::size() const noexcept {
  return impl_->size;
}

void ShardedOptimizer::step(const std::function<void(const Shard& shard)>& update) {
  if (!impl_->model.was_averaged(0)) {
    refuse_sharded(impl_->group, "step() of gradients that finish() has not averaged");
  }
  for (const ShardedBucket& bucket : impl_->buckets) impl_->step(bucket, update);
}

}  // namespace ddp
