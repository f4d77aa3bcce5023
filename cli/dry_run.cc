// SPDX-License-Identifier: Apache-2.0
#include "cli/dry_run.h"

#include <algorithm>
#include <string_view>

#include "agent/worker_env.h"
#include "rendezvous/layout.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";

/// `word` as a POSIX shell reads it back.
std::string quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text += "'";
}

/// NAME='value': a quoted name would be a command, not an assignment.
std::string quoted_assignment(const std::string& variable) {
  const size_t value = variable.find('=') + 1;
  return variable.substr(0, value) +
         (value == variable.size() ? "" : quoted(variable.substr(value)));
}

std::string describe_devices(const agent::JobSpec& job, const Host& host) {
  std::string list;
  for (const std::string& device : job.devices) {
    list.append(list.empty() ? "GPUs " : ",").append(device);
  }
  if (list.empty()) {
    const bool hidden = agent::find_variable(host.environment, "CUDA_VISIBLE_DEVICES") != nullptr;
    return hidden ? "no GPUs (CUDA_VISIBLE_DEVICES hides them)" : "no GPUs";
  }
  const bool all = job.gpu_bind == agent::GpuBind::all;
  return list + (all ? " (all visible to each worker)" : " (divided among the workers)");
}

std::string describe_port(const agent::JobSpec& job) {
  if (job.master_port == 0) return job.master_addr + " (free port)";
  const bool ipv6 = job.master_addr.find(':') != std::string::npos;
  return (ipv6 ? "[" + job.master_addr + "]" : job.master_addr) + ":" +
         std::to_string(job.master_port);
}

}  // namespace

std::string dry_run_text(const agent::JobSpec& job, const Host& host) {
  rendezvous::Layout layout;
  layout.local_size = job.local_size;
  layout.world_size = job.local_size;
  // With a store in rank 0, workers meet on a port of their own that is free at the start.
  const bool known_port = job.master_port != 0 && job.store == agent::StoreHost::agent;
  const agent::WorkerEnv environment(job, host.environment, layout, job.master_port);

  std::string text = "node 0 of 1 on " + host.name + ", rendezvous " + describe_port(job) +
                     ", restarts " + std::to_string(job.max_restarts) + ", " +
                     describe_devices(job, host) + "\n";
  std::string command;
  for (const std::string& word : job.command) command += " " + quoted(word);
  for (int local_rank = 0; local_rank < job.local_size; ++local_rank) {
    text += "rank " + std::to_string(local_rank) + ":";
    for (const std::string& variable : environment.decided(local_rank)) {
      const bool port = !known_port && variable.starts_with("MASTER_PORT=");
      text += port ? " MASTER_PORT=PORT" : " " + quoted_assignment(variable);
    }
    text += command + "\n";
  }
  return text;
}

}  // namespace ddprun::cli
