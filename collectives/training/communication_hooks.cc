// SPDX-License-Identifier: Apache-2.0
#include "ddp/communication_hooks.h"

#include <memory>
#include <string>
#include <utility>

#include "collectives/group/group_access.h"
#include "collectives/group/group_member.h"
#include "collectives/training/refuse_hook.h"

namespace ddp {
namespace {

using internal::GroupMember;

BegunAverage begin_average(GroupMember& group, const Buffer& memory) {
  return {group.begin(group.make.all_reduce(memory, memory, ReduceOp::avg))};
}

template <Element Small, Element Large>
BegunAverage begin_average_as(GroupMember& group, const Buffer& memory) {
  auto* const large = static_cast<Large*>(memory.data);
  const std::size_t count = memory.count;
  auto small = std::make_unique_for_overwrite<Small[]>(count);
  for (std::size_t i = 0; i < count; ++i) small[i] = Small(static_cast<float>(large[i]));
  BegunAverage begun = begin_average(group, Buffer(small.get(), count, data_type<Small>()));
  begun.finish = [large, count, sent = std::shared_ptr<Small[]>(std::move(small))] {
    for (std::size_t i = 0; i < count; ++i) large[i] = static_cast<Large>(sent[i]);
  };
  return begun;
}

template <Element Small>
CommunicationHook compress_as(ProcessGroup& group, const char* name) {
  return [&member = internal::GroupAccess::member(group), name](const GradientBucket& bucket) {
    internal::check_on_host(member, bucket, name);
    const Buffer& memory = bucket.memory;
    if (memory.type == DataType::float32) return begin_average_as<Small, float>(member, memory);
    if (memory.type == DataType::float64) return begin_average_as<Small, double>(member, memory);
    return begin_average(member, memory);
  };
}

}  // namespace

CommunicationHook fp16_compress(ProcessGroup& group) {
  return compress_as<float16>(group, "fp16_compress");
}

CommunicationHook bf16_compress(ProcessGroup& group) {
  return compress_as<bfloat16>(group, "bf16_compress");
}

}  // namespace ddp
