// SPDX-License-Identifier: Apache-2.0
#include "cli/dry_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/master/master.h"
#include "agent/worker/worker_command.h"
#include "agent/worker/worker_devices.h"
#include "agent/worker/worker_env.h"
#include "base/text.h"
#include "launcher/output/log_dir.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::cli {
namespace {

/// The variables whose values are not known yet, and their placeholders.
using Unknown = std::map<std::string_view, std::string_view>;
constexpr std::string_view kUnknown = "?";

/// NAME='value', because a shell takes 'NAME=value' for a command.
std::string quoted_assignment(const std::string& variable) {
  const size_t value = variable.find('=') + 1;
  return variable.substr(0, value) +
         (value == variable.size() ? "" : shell_word(variable.substr(value)));
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
  const bool all = job.gpu_bind == agent::GpuBind::all && !job.virtual_local_rank;
  return list + (all ? " (all visible to each worker)" : " (divided among the workers)");
}

rendezvous::Endpoint store_of(const agent::JobSpec& job) {
  return agent::uses_tunnel(job) ? rendezvous::Endpoint{"127.0.0.1", 0}
                                 : agent::master_endpoint(job);
}

std::string describe_rendezvous(const agent::JobSpec& job) {
  if (job.etcd) return "by etcd at " + job.etcd->text();
  return job.master_port == 0 ? job.master_addr + " (free port)"
                              : agent::master_endpoint(job).text();
}

std::string describe_restarts(const agent::JobSpec& job) {
  const std::string count = std::to_string(job.max_restarts);
  if (job.restart_window.count() == 0) return count;
  return count + " within " + duration_text(job.restart_window);
}

std::string describe_node(const agent::JobSpec& job) {
  const std::string least = std::to_string(job.min_nodes);
  const std::string most = std::to_string(job.max_nodes);
  const std::optional<int> rank = job.max_nodes == 1 ? 0 : job.node_rank;
  return "node " + (rank ? std::to_string(*rank) : "?") + " of " +
         (job.min_nodes == job.max_nodes ? most : least + ".." + most);
}

/// The job's first round, guessed before the rendezvous.
rendezvous::Layout guess_layout(const agent::JobSpec& job) {
  rendezvous::Layout layout;
  layout.node_rank = job.node_rank.value_or(0);
  layout.node_count = job.max_nodes;
  layout.first_rank = layout.node_rank * job.local_size;
  layout.local_size = job.local_size;
  layout.world_size = layout.node_count * job.local_size;
  return layout;
}

Unknown unknown_variables(const agent::JobSpec& job) {
  Unknown unknown;
  if (job.max_nodes > 1 && !job.node_rank) {
    for (const char* name : {"RANK", "ROLE_RANK", "GROUP_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"})
      unknown[name] = kUnknown;
  }
  if (job.min_nodes != job.max_nodes) {
    for (const char* name : {"WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_WORLD_SIZE", "PMI_SIZE",
                             "OMPI_COMM_WORLD_SIZE"}) {
      unknown[name] = kUnknown;
    }
  }
  // Rank 0's own store is on that rank's host, at a port that is free at the start.
  const bool own_store = job.store == agent::StoreHost::worker;
  const bool is_elsewhere = job.etcd && !agent::uses_tunnel(job);
  if (is_elsewhere || (own_store && job.max_nodes > 1)) unknown["MASTER_ADDR"] = kUnknown;
  if (own_store || agent::uses_tunnel(job) || job.master_port == 0) unknown["MASTER_PORT"] = "PORT";
  if (job.etcd) unknown["DDPRUN_MASTER_ADDR"] = kUnknown;
  if (job.etcd || job.master_port == 0) unknown["DDPRUN_MASTER_PORT"] = "PORT";
  if (job.log_dir != launcher::LogDir::kNone) unknown["TORCHELASTIC_ERROR_FILE"] = "FILE";
  return unknown;
}

/// The assumptions behind the ranks of a job of several nodes; empty: none.
std::string describe_assumption(const agent::JobSpec& job, const Unknown& unknown) {
  if (job.max_nodes == 1) return "";
  std::string text =
      "assuming --nproc_per_node " + std::to_string(job.local_size) + " on every node";
  if (job.node_rank.value_or(0) > 0 && job.min_nodes != job.max_nodes) {
    text += ", and that all nodes with lower ranks have joined";
  }
  const bool some = std::any_of(unknown.begin(), unknown.end(),
                                [](const auto& variable) { return variable.second == kUnknown; });
  if (some) text += "; ? is known after the rendezvous";
  return text + "\n";
}

/// The variables that ddprun sets for a worker, in a shell's syntax.
std::vector<std::string> assignments(const agent::WorkerEnv& environment, int local_rank,
                                     const Unknown& unknown) {
  std::vector<std::string> all;
  for (const std::string& variable : environment.decided(local_rank, "")) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    const auto value = unknown.find(name);
    all.push_back(value == unknown.end() ? quoted_assignment(variable)
                                         : std::string(name) + "=" + std::string(value->second));
  }
  return all;
}

/// Whether the variable is a rank. Each worker has its own, even if it is not known yet.
bool is_rank(std::string_view assignment) {
  return assignment.substr(0, assignment.find('=')).ends_with("RANK") &&
         !assignment.starts_with("GROUP_RANK=");
}

/// Moves the variables that all workers have out of `workers`.
std::vector<std::string> take_common(std::vector<std::vector<std::string>>& workers) {
  std::vector<std::string> common;
  if (workers.size() == 1) return common;
  for (const std::string& each : workers.front()) {
    const bool everywhere = std::all_of(workers.begin(), workers.end(), [&](const auto& worker) {
      return std::find(worker.begin(), worker.end(), each) != worker.end();
    });
    if (everywhere && !is_rank(each)) common.push_back(each);
  }
  for (std::vector<std::string>& worker : workers) {
    std::erase_if(worker, [&](const std::string& each) {
      return std::find(common.begin(), common.end(), each) != common.end();
    });
  }
  return common;
}

void append_words(std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) text.append(" ").append(word);
}

}  // namespace

std::string dry_run_text(const agent::JobSpec& job, const Host& host) {
  const rendezvous::Layout layout = guess_layout(job);
  const agent::WorkerEnv environment(job, host.environment, layout, store_of(job));
  const Unknown unknown = unknown_variables(job);
  const auto rank_text = [&, known = unknown.find("RANK") == unknown.end()](int local_rank) {
    return known ? "rank " + std::to_string(layout.first_rank + local_rank)
                 : "local rank " + std::to_string(local_rank);
  };

  std::string text = describe_node(job) + " on " + host.name + ", rendezvous " +
                     describe_rendezvous(job) + ", restarts " + describe_restarts(job) + ", " +
                     describe_devices(job, host) +
                     (job.preload.empty() ? "" : ", imported once: " + agent::preloaded_text(job)) +
                     "\n" + describe_assumption(job, unknown);
  for (int local_rank = 0; local_rank < std::ssize(job.bindings); ++local_rank) {
    text += rank_text(local_rank) + " on " + agent::binding_text(job, local_rank) + "\n";
  }
  std::vector<std::vector<std::string>> workers;
  for (int local_rank = 0; local_rank < job.local_size; ++local_rank) {
    workers.push_back(assignments(environment, local_rank, unknown));
  }
  const std::vector<std::string> common = take_common(workers);
  if (!common.empty()) {
    text += "each rank:";
    append_words(text, common);
    text += '\n';
  }
  for (int local_rank = 0; local_rank < job.local_size; ++local_rank) {
    text += rank_text(local_rank) + ":";
    append_words(text, workers[static_cast<size_t>(local_rank)]);
    for (const std::string& word : agent::worker_command(job, local_rank)) {
      text += " " + shell_word(word);
    }
    text += '\n';
  }
  return text;
}

}  // namespace ddprun::cli
