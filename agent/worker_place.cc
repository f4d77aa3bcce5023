// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_place.h"

#include <vector>

#include "agent/worker_env.h"
#include "launcher/affinity.h"

namespace ddprun::agent {
namespace {

std::string plural(const std::string& what, size_t count) {
  return what + (count == 1 ? " " : "s ");
}

std::string gpus_text(const std::vector<std::string>& devices) {
  std::string text;
  for (const std::string& device : devices) {
    text.append(text.empty() ? plural("GPU", devices.size()) : ",").append(device);
  }
  return text.empty() ? "" : text + ", ";
}

}  // namespace

std::string worker_place(const JobSpec& job, int local_rank) {
  const launcher::Binding& binding = job.bindings[static_cast<size_t>(local_rank)];
  const std::string nodes = job.numa_binding ? plural("NUMA node", binding.nodes.size()) +
                                                   launcher::list_text(binding.nodes)
                                             : "inherited";
  return gpus_text(devices_of(job, local_rank)) + plural("CPU", binding.cpus.size()) +
         launcher::list_text(binding.cpus) + " (" + nodes + ")";
}

}  // namespace ddprun::agent
