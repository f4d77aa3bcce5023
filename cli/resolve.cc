// SPDX-License-Identifier: Apache-2.0
#include "cli/resolve.h"

#include <charconv>
#include <optional>
#include <utility>

#include "agent/worker_env.h"
#include "base/text.h"
#include "cli/usage.h"
#include "launcher/output/prefix.h"
#include "rendezvous/membership_text.h"

namespace ddprun::cli {
namespace {

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";
constexpr const char* kPrefixTemplate = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
constexpr std::uint16_t kDefaultPort = 29'500;

rendezvous::RoundSpec nodes_of(const agent::JobSpec& job) {
  rendezvous::RoundSpec spec;
  spec.min_nodes = job.min_nodes;
  spec.max_nodes = job.max_nodes;
  return spec;
}

std::string nnodes(const agent::JobSpec& job) {
  return "--nnodes " + rendezvous::nnodes_text(nodes_of(job));
}

Result<> resolve_standalone(agent::JobSpec& job) {
  if (job.max_nodes > 1)
    return usage("--standalone means one node, and " + nnodes(job) + " does not");
  job.master_addr = "127.0.0.1";
  job.master_port = 0;
  job.is_host.reset();
  return {};
}

Result<> resolve_addr(RawOptions& raw, Mode mode) {
  agent::JobSpec& job = raw.job;
  if (raw.master_addr) {
    job.master_addr = *raw.master_addr;
    if (!job.master_addr.empty() || mode == Mode::serve) return {};
    return usage("--rdzv_endpoint :" + std::to_string(*raw.master_port) +
                 " names no host; only ddprun serve can listen at every address");
  }
  if (mode == Mode::serve) {
    return usage("ddprun serve needs --rdzv_endpoint HOST:PORT, or :PORT for every address");
  }
  if (job.max_nodes == 1) return {};
  return usage(nnodes(job) +
               " needs a place to meet: --rdzv_endpoint HOST[:PORT], the same on every node");
}

Result<> resolve_port(RawOptions& raw, Mode mode) {
  agent::JobSpec& job = raw.job;
  const bool fixed = job.max_nodes > 1 || mode == Mode::serve;  // others have to know it
  job.master_port = raw.master_port.value_or(fixed || raw.endpoint ? kDefaultPort : 0);
  if (!fixed || job.master_port != 0) return {};
  return usage(raw.port_said_by +
               " means any free port, which other nodes cannot know: give a port from 1 to 65535");
}

}  // namespace

Result<> resolve_rendezvous(RawOptions& raw, Mode mode) {
  agent::JobSpec& job = raw.job;
  if (raw.joining_order) job.node_rank.reset();
  if (job.node_rank.value_or(0) >= job.max_nodes) {
    return usage(rendezvous::out_of_range(*job.node_rank, nodes_of(job)));
  }
  if (job.lease <= job.heartbeat) {
    return usage("--lease " + duration_text(job.lease) +
                 " has to be longer than --heartbeat_interval " + duration_text(job.heartbeat));
  }
  if (raw.standalone) return resolve_standalone(job);
  if (const Result<> addr = resolve_addr(raw, mode); !addr) return addr.error();
  if (mode == Mode::serve) job.is_host = true;
  return resolve_port(raw, mode);
}

Result<> resolve_workers(RawOptions& raw, const Host& host) {
  agent::JobSpec& job = raw.job;
  const std::string& size = raw.local_size;
  const bool isolate = job.gpu_bind == agent::GpuBind::isolate;
  const bool own = isolate || job.virtual_local_rank;  // each worker sees its own GPUs alone
  if (isolate && job.virtual_local_rank) {
    return usage(
        "--virtual_local_rank gives each worker one GPU, and --gpu_bind isolate all that "
        "its share has: give one of the two");
  }
  const char* visible = agent::find_variable(host.environment, kVisibleDevices);
  if (visible != nullptr) {
    job.devices = launcher::parse_visible_devices(visible);
  } else {
    const bool counts = own || size == "gpu" || size == "auto";
    job.devices =
        host.devices(counts ? launcher::DeviceSearch::exact : launcher::DeviceSearch::quick);
  }
  const int gpus = static_cast<int>(job.devices.size());
  const std::string because =
      visible ? std::string(" (") + kVisibleDevices + "=" + visible + ")" : "";

  if (size == "gpu" && gpus == 0) {
    return usage("--nproc_per_node gpu needs a GPU, and there is none on this host" + because);
  }
  if (size == "gpu" || (size == "auto" && gpus > 0)) {
    job.local_size = gpus;
  } else if (size == "cpu" || size == "auto") {
    job.local_size = static_cast<int>(host.cpus().size());
  } else {
    std::from_chars(size.data(), size.data() + size.size(), job.local_size);
  }
  if (own && gpus < job.local_size) {
    return usage(std::string(isolate ? "--gpu_bind isolate" : "--virtual_local_rank") +
                 " needs at least one GPU per worker: " + std::to_string(job.local_size) +
                 (job.local_size == 1 ? " worker, " : " workers, ") + std::to_string(gpus) +
                 (gpus == 1 ? " GPU" : " GPUs") + " on this host" + because);
  }
  return {};
}

Result<> resolve_prefix(RawOptions& raw, const Host& host) {
  if (raw.no_prefix) return {};
  const char* torchruns = agent::find_variable(host.environment, kPrefixTemplate);
  const bool has_torchruns = torchruns != nullptr && *torchruns != '\0';
  if (raw.prefix || has_torchruns) {
    const std::string text = raw.prefix ? *raw.prefix : torchruns;
    Result<std::string> sample = launcher::expand_prefix(text, {});
    if (!sample) {
      return std::move(sample.error()).in(raw.prefix ? "--prefix" : kPrefixTemplate);
    }
    raw.job.prefix = text;
  } else if (raw.job.local_size > 1 || raw.job.max_nodes > 1) {
    raw.job.prefix = launcher::kDefaultPrefix;
  }
  return {};
}

}  // namespace ddprun::cli
