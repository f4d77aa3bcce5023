// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/reducer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "collectives/call/call.h"
#include "collectives/group/group_access.h"
#include "collectives/group/group_member.h"
#include "collectives/group/host_memory.h"
#include "collectives/training/bucket_plan.h"
#include "collectives/training/wait_for_end.h"

namespace ddp::internal {
namespace {

using std::chrono::steady_clock;

/// The memory of all parts, which are adjacent.
Buffer memory_of(std::span<const GradientBucket::Part> parts) {
  Buffer memory = parts.front().gradient;
  for (const auto& part : parts.subspan(1)) memory.count += part.gradient.count;
  return memory;
}

}  // namespace

Reducer::Reducer(ProcessGroup& group, std::vector<Buffer> gradients, const Options& options)
    : group_(GroupAccess::member(group)),
      hook_(options.hook),
      gradients_(std::move(gradients)),
      bucket_of_(gradients_.size()),
      ready_(gradients_.size()),
      used_(gradients_.size()),
      averaged_(gradients_.size()),
      learns_order_(!options.find_unused_parameters),
      exceptions_(std::uncaught_exceptions()) {
  if (options.find_unused_parameters) own_ = group.split(0);
  if (options.uneven_inputs) announcements_.emplace(group_);
  lay_out(options);
  end_pass();
}

Reducer::~Reducer() {
  if (averages_.empty() && !(announcements_ && announcements_->is_begun())) return;
  // The calls under way use the buckets.
  if (std::uncaught_exceptions() > exceptions_) {
    group_.abort("the group was aborted in the middle of a backward pass");
  }
  for (const BegunAverage& average : averages_) wait_for_end(average.work);
}

/// Takes the group's memory; but nccl's is on GPUs, so gradients on the host get host memory.
std::shared_ptr<void> Reducer::allocate(std::size_t bytes, const Buffer& gradient) {
  const bool is_groups = gradient.on_device || group_.backend_name != "nccl";
  return is_groups ? group_.allocate(bytes) : allocate_on_host(bytes);
}

void Reducer::lay_out(const Options& options) {
  for (auto& planned : plan_buckets(gradients_, options.first_bucket_bytes, options.bucket_bytes)) {
    const std::size_t bytes = planned.count * size_of(planned.type);
    memory_.push_back(options.allocate ? options.allocate(bytes)
                                       : allocate(bytes, gradients_[planned.parameters.front()]));
    Bucket bucket;
    auto* at = static_cast<std::byte*>(memory_.back().get());
    for (const std::size_t parameter : planned.parameters) {
      bucket_of_[parameter] = buckets_.size();
      Buffer& gradient = gradients_[parameter];
      gradient.data = at;
      bucket.parts.push_back({parameter, gradient});
      at += gradient.count * size_of(gradient.type);
    }
    buckets_.push_back(std::move(bucket));
  }
  order_.resize(buckets_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

void Reducer::refuse(const std::string& what) const {
  const int rank = group_.context.named(group_.context.rank);
  throw ddp::Error(ErrorKind::usage, "ddp: rank " + std::to_string(rank) + ": " + what);
}

void Reducer::check_parameter(std::size_t parameter) const {
  if (parameter < size()) return;
  refuse("parameter " + std::to_string(parameter) + " of a model that has " +
         std::to_string(size()) + ": they are numbered from 0");
}

const Buffer& Reducer::gradient(std::size_t parameter) const {
  check_parameter(parameter);
  return gradients_[parameter];
}

void Reducer::gradient_ready(std::size_t parameter) {
  check_parameter(parameter);
  if (ready_[parameter] != 0) {
    refuse("the gradient of parameter " + std::to_string(parameter) +
           " is ready a second time in one pass: finish() ends each");
  }
  announce_pass();
  used_[parameter] = 1;
  mark_ready(parameter);
}

void Reducer::mark_ready(std::size_t parameter) {
  ready_[parameter] = 1;
  ++ready_count_;
  const std::size_t bucket = bucket_of_[parameter];
  if (--buckets_[bucket].missing > 0) return;
  completed_.push_back(bucket);
  if (no_sync_ == 0) begin_complete();
}

void Reducer::announce_pass() {
  if (!announcements_ || announcements_->is_begun() || no_sync_ > 0) return;
  announcements_->begin(NextStep::pass);
}

/// Begins the complete buckets that have no incomplete bucket before them. If a hook refuses a
/// bucket, it has not begun, so finish() does not leave it out.
void Reducer::begin_complete() {
  for (; begun_ < order_.size() && buckets_[order_[begun_]].missing == 0; ++begun_) {
    begin(buckets_[order_[begun_]].parts);
  }
}

void Reducer::begin(std::span<const GradientBucket::Part> parts) {
  const Buffer memory = memory_of(parts);
  averages_.push_back(hook_ ? hook_({memory, parts}) : begin_all_reduce(memory));
  bytes_ += memory.count * size_of(memory.type);
}

BegunAverage Reducer::begin_all_reduce(const Buffer& memory) {
  return {group_.begin(group_.make.all_reduce(memory, memory, ReduceOp::avg))};
}

void Reducer::finish() {
  if (no_sync_ > 0) {
    averaged_.assign(size(), 0);
    return end_pass();
  }
  if (ready_count_ < size() && !own_) {
    refuse("finish() of a pass in which the gradients of parameters " + missing() + " of " +
           std::to_string(size()) +
           " were not ready; a model that does not use all of them in each pass needs the option "
           "find_unused_parameters");
  }
  announce_pass();
  average();
}

void Reducer::average() {
  begin_rest();
  wait();
  std::fill(used_.begin(), used_.end(), std::uint8_t{0});
  if (learns_order_) agree_on_order();
  end_pass();
}

void Reducer::pass_of_others() {
  for (const Bucket& bucket : buckets_) {
    const Buffer memory = memory_of(bucket.parts);
    std::memset(memory.data, 0, memory.count * size_of(memory.type));
  }
  std::fill(used_.begin(), used_.end(), std::uint8_t{0});
  if (!own_) {
    for (std::size_t p = size(); p-- > 0;) mark_ready(p);
  }
  average();
}

void Reducer::announce_buffers() {
  check_between_passes("broadcast_buffers()");
  if (!announcements_) return;
  announcements_->begin(NextStep::buffers);
  announcements_->wait();
}

std::string Reducer::missing() const {
  std::vector<int> parameters;
  for (std::size_t i = 0; i < size(); ++i) {
    if (ready_[i] == 0) parameters.push_back(static_cast<int>(i));
  }
  return ddprun::compress_ranks(parameters);
}

/// If all gradients of a bucket are used somewhere, averages it as a whole: a rank that had it
/// complete has begun that long ago.
void Reducer::begin_rest() {
  averaged_.assign(size(), 1);
  if (!own_) return begin_complete();
  averaged_ = used_;
  own_->all_reduce(averaged_, ReduceOp::max);
  for (; begun_ < order_.size(); ++begun_) begin_used(buckets_[order_[begun_]].parts);
}

/// Averages the gradients that some rank used, adjacent ones in one call.
void Reducer::begin_used(std::span<const GradientBucket::Part> parts) {
  const auto is_used = [&](const auto& part) { return averaged_[part.parameter] != 0; };
  for (auto at = parts.begin(); at != parts.end();) {
    const auto first = std::find_if(at, parts.end(), is_used);
    at = std::find_if_not(first, parts.end(), is_used);
    if (first != at) begin({first, at});
  }
}

void Reducer::wait() {
  const auto began = steady_clock::now();
  std::chrono::nanoseconds communication{0};
  if (announcements_) announcements_->wait();
  for (const auto& [work, rest] : averages_) {
    work.wait();
    communication += work.duration().value_or(std::chrono::nanoseconds{0});
    if (rest) rest();
  }
  const std::chrono::nanoseconds waited = steady_clock::now() - began;
  statistics_ = {.bytes = bytes_,
                 .all_reduces = averages_.size(),
                 .communication = communication,
                 .waited = waited,
                 .hidden = std::max(communication - waited, std::chrono::nanoseconds{0})};
}

void Reducer::agree_on_order() {
  learns_order_ = false;
  if (buckets_.size() < 2) return;
  std::vector<std::int64_t> order(completed_.begin(), completed_.end());
  group_.run(group_.make.broadcast(order, 0));
  order_.assign(order.begin(), order.end());
}

void Reducer::end_pass() {
  std::fill(ready_.begin(), ready_.end(), std::uint8_t{0});
  ready_count_ = 0;
  begun_ = 0;
  bytes_ = 0;
  averages_.clear();
  completed_.clear();
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parts.size();
}

void Reducer::begin_no_sync() {
  check_between_passes("no_sync()");
  ++no_sync_;
}

void Reducer::check_between_passes(const std::string& what) const {
  if (ready_count_ > 0) refuse(what + " in a pass that has begun: finish() ends it");
}

bool Reducer::was_averaged(std::size_t parameter) const {
  check_parameter(parameter);
  return averaged_[parameter] != 0;
}

std::vector<std::vector<std::size_t>> Reducer::buckets() const {
  std::vector<std::vector<std::size_t>> all;
  for (const std::size_t bucket : order_) {
    all.emplace_back();
    for (const auto& part : buckets_[bucket].parts) all.back().push_back(part.parameter);
  }
  return all;
}

}  // namespace ddp::internal
