// SPDX-License-Identifier: Apache-2.0
// Training and the process in the C interface.
#include <algorithm>
#include <chrono>

#include "collectives/c/handles.h"
#include "ddp/heartbeat.h"
#include "ddp/local_devices.h"
#include "ddp/record.h"
#include "ddp/sampler.h"
#include "ddp/spawn.h"
#include "ddp/trace.h"

using namespace ddp::c;

namespace {

/// Copies the numbers to a buffer that has to be made for them.
void store_indices(const std::vector<std::size_t>& indices, const ddp_buffer& buffer) {
  if (buffer.type != DDP_UINT64 || buffer.count != indices.size() || buffer.on_device != 0) {
    refuse("the indices need " + std::to_string(indices.size()) + " elements of DDP_UINT64");
  }
  std::copy(indices.begin(), indices.end(), static_cast<std::uint64_t*>(buffer_of(&buffer).data));
}

}  // namespace

ddp_error* ddp_sample(size_t dataset_size, int replicas, int rank, int shuffle, uint64_t seed,
                      int drop_last, uint64_t epoch, ddp_buffer* indices, size_t* count,
                      size_t* padding) {
  return guarded(kNoRank, [&] {
    ddp::DistributedSampler sampler(
        dataset_size, replicas, rank,
        {.shuffle = shuffle != 0, .seed = seed, .drop_last = drop_last != 0});
    sampler.set_epoch(epoch);
    if (indices != nullptr) store_indices(sampler.indices(), *indices);
    if (count != nullptr) *count = sampler.size();
    if (padding != nullptr) *padding = sampler.padding();
  });
}

ddp_error* ddp_checkpoint_make(const char* path, ddp_checkpoint** checkpoint) {
  return guarded(kNoRank, [&] {
    ddp::Checkpoint made(&need(path, "the path"));
    need(checkpoint, "the result") = new_handle<ddp_checkpoint>(std::move(made));
  });
}

void ddp_checkpoint_free(ddp_checkpoint* checkpoint) {
  delete checkpoint;
}

ddp_error* ddp_checkpoint_save(ddp_checkpoint* checkpoint, ddp_group* group, uint64_t version,
                               const ddp_buffer* state, size_t count, ddp_work** work) {
  return guarded(rank_of(group), [&] {
    ddp::ProcessGroup& own = need(group, "the group").group;
    ddp::Checkpoint& file = need(checkpoint, "the checkpoint").checkpoint;
    const auto parts = buffers_of(state, count);
    if (work == nullptr) return file.save(own, version, parts);
    *work = new_handle<ddp_work>(file.isave(own, version, parts), group->first_rank);
  });
}

ddp_error* ddp_checkpoint_load(ddp_checkpoint* checkpoint, ddp_group* group, ddp_buffer* state,
                               size_t count, uint64_t* version, int* found) {
  return guarded(rank_of(group), [&] {
    ddp::ProcessGroup& own = need(group, "the group").group;
    const auto loaded =
        need(checkpoint, "the checkpoint").checkpoint.load(own, buffers_of(state, count));
    need(found, "found") = loaded ? 1 : 0;
    if (loaded) need(version, "version") = *loaded;
  });
}

ddp_error* ddp_spawn(int count, ddp_function function, void* context, int64_t grace_ms,
                     ddp_start_method method) {
  return guarded(kNoRank, [&] {
    need(function, "the function");
    ddp::SpawnOptions options;
    if (grace_ms >= 0) options.grace_period = std::chrono::milliseconds(grace_ms);
    if (method == DDP_EXEC) options.start_method = ddp::StartMethod::exec;
    ddp::spawn(count, [&](int) { throw_error(function(context)); }, options);
  });
}

int ddp_record(ddp_function main, void* context) {
  return ddp::record([&] {
    throw_error(main(context));
    return 0;
  });
}

void ddp_heartbeat(int64_t step) {
  ddp::heartbeat(step);
}

ddp_error* ddp_write_trace(const char* path) {
  return guarded(kNoRank, [&] { ddp::write_trace(&need(path, "the path")); });
}

ddp_error* ddp_local_device(int* device) {
  return guarded(kNoRank, [&] { need(device, "the result") = ddp::local_device(); });
}
