// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/placement.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/backends/cuda/place.h"
#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

struct NamedMemory {
  std::string name;
  const void* memory;
};

/// Whether the task moves elements of a buffer with these counts.
bool has_elements(const Task& task, const std::vector<std::size_t>& counts) {
  if (counts.empty()) return task.count > 0;
  return std::ranges::any_of(counts, [](std::size_t count) { return count > 0; });
}

/// The buffers that the task reads or writes. Empty ones may be anywhere.
std::vector<NamedMemory> list_buffers(const Task& task) {
  std::vector<NamedMemory> all;
  if (task.in != nullptr && has_elements(task, task.send_counts)) all.push_back({"in", task.in});
  if (task.out != nullptr && task.out != task.in && has_elements(task, task.recv_counts)) {
    all.push_back({"out", task.out});
  }
  for (const Transfer& one : task.transfers) {
    const std::string name = one.sends ? "what it sends" : "what it receives";
    if (one.count > 0) all.push_back({name, one.data});
  }
  return all;
}

std::string is_elsewhere(const std::string& name, int place, int device) {
  return ": " + name + " is on GPU " + std::to_string(place) + ", but this group uses GPU " +
         std::to_string(device) + ": pass buffers and streams of that GPU, or set Options::device";
}

}  // namespace

std::optional<int> find_device(const Task& task) {
  for (const NamedMemory& buffer : list_buffers(task)) {
    if (const auto device = place_of(buffer.memory).device) return device;
  }
  return std::nullopt;
}

std::string find_misplaced(const Task& task, int device) {
  for (const NamedMemory& buffer : list_buffers(task)) {
    const MemoryPlace place = place_of(buffer.memory);
    if (place.device && *place.device != device) {
      return is_elsewhere(buffer.name, *place.device, device);
    }
    if (!place.is_known && !reaches_unknown_memory(device)) {
      return ": " + buffer.name + " is passed with a stream, but is in no GPU's memory";
    }
  }
  const auto stream = device_of(task.stream);
  if (stream && *stream != device) return is_elsewhere("the stream", *stream, device);
  return "";
}

}  // namespace ddp::internal
