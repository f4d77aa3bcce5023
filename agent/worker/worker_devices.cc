// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_devices.h"

#include <cstddef>

#include "base/text.h"

namespace ddprun::agent {
namespace {

std::string label(const std::string& noun, size_t count) {
  return noun + (count == 1 ? " " : "s ");
}

std::string gpus_text(const JobSpec& job, int local_rank) {
  const std::string names = device_names(job, local_rank);
  return names.empty() ? "" : label("GPU", devices_of(job, local_rank).size()) + names + ", ";
}

}  // namespace

std::vector<std::string> devices_of(const JobSpec& job, int local_rank) {
  if (job.devices.empty()) return {};
  if (job.gpu_bind == GpuBind::isolate) {
    return device_block(job.devices, local_rank, job.local_size);
  }
  return {job.devices[static_cast<size_t>(local_rank) % job.devices.size()]};
}

std::string device_names(const JobSpec& job, int local_rank) {
  std::string names;
  for (const std::string& device : devices_of(job, local_rank)) {
    names.append(names.empty() ? "" : ",").append(device);
  }
  return names;
}

std::vector<std::string> device_block(const std::vector<std::string>& devices, int local_rank,
                                      int local_size) {
  const auto count = static_cast<std::ptrdiff_t>(devices.size());
  return {devices.begin() + count * local_rank / local_size,
          devices.begin() + count * (local_rank + 1) / local_size};
}

std::string binding_text(const JobSpec& job, int local_rank) {
  const launcher::Binding& binding = job.bindings[static_cast<size_t>(local_rank)];
  const std::string nodes =
      job.numa_binding ? label("NUMA node", binding.nodes.size()) + list_text(binding.nodes)
                       : "inherited";
  return gpus_text(job, local_rank) + label("CPU", binding.cpus.size()) + list_text(binding.cpus) +
         " (" + nodes + ")";
}

}  // namespace ddprun::agent
