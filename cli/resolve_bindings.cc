// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "agent/worker_devices.h"
#include "cli/resolve.h"
#include "cli/setters.h"

namespace ddprun::cli {
namespace {

/// For each worker the NUMA nodes next to the GPUs that it is to use.
std::vector<std::vector<int>> nodes_near(const agent::JobSpec& job, const Host& host) {
  std::vector<std::vector<int>> near;
  const std::vector<std::optional<int>> known = host.gpu_nodes(job.devices);
  for (int local_rank = 0; local_rank < job.local_size; ++local_rank) {
    std::vector<int>& nodes = near.emplace_back();
    for (const std::string& device : agent::devices_of(job, local_rank)) {
      for (size_t i = 0; i < known.size(); ++i) {
        if (job.devices[i] == device && known[i]) nodes.push_back(*known[i]);
      }
    }
  }
  return near;
}

Result<std::vector<launcher::Binding>> decide(const agent::JobSpec& job, const Host& host) {
  Result<launcher::Topology> topology = host.topology();
  if (!topology) return topology.error();
  return launcher::bind_workers(*job.numa_binding, *topology, nodes_near(job, host));
}

}  // namespace

Result<> resolve_bindings(RawOptions& raw, const Host& host) {
  agent::JobSpec& job = raw.job;
  if (job.numa_binding) {
    Result<std::vector<launcher::Binding>> bindings = decide(job, host);
    if (!bindings) {
      return std::move(bindings.error())
          .in("--numa_binding " + std::string(numa_binding_name(*job.numa_binding)));
    }
    job.bindings = std::move(*bindings);
  } else if (job.report_bindings) {
    job.bindings.assign(static_cast<size_t>(job.local_size), {host.cpus(), {}});
  }
  return {};
}

}  // namespace ddprun::cli
