// SPDX-License-Identifier: Apache-2.0
// Slurm, by the output environment of srun(1) and sbatch(1), versions 22.05 to 25.05.
#include <algorithm>
#include <set>
#include <string_view>

#include "engine/allocation.h"
#include "engine/detect.h"

namespace ddprun::engine {
namespace {

constexpr int kMostNodes = kMostHosts;

/// Whether srun started this process. A batch script, and the shell of salloc on a node, may have
/// step numbers that are not srun's (SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP).
bool is_step(const std::string* id) {
  return id != nullptr && *id != "4294967291" && *id != "4294967290";
}

/// This node's NodeName, which slurmd sets for its processes; it may differ from the host's name.
std::string_view own_name(const DetectionInput& input) {
  const std::string* name = find(input.environment, "SLURMD_NODENAME");
  return name ? std::string_view(*name) : std::string_view(input.host);
}

/// srun starts a task for each --ntasks, but ddprun starts the workers itself.
Result<> check_tasks(const Variables& variables) {
  const std::string* text = find(variables, "SLURM_STEP_TASKS_PER_NODE");
  if (text == nullptr) return {};
  const Result<std::vector<int>> tasks = expand_counts(*text);
  if (!tasks) return Error(tasks.error()).in("SLURM_STEP_TASKS_PER_NODE");
  const int most = *std::max_element(tasks->begin(), tasks->end());
  if (most <= 1) return {};
  return Error{Errc::usage, "srun started " + std::to_string(most) +
                                " tasks on a node, and ddprun starts a node's workers itself: use "
                                "srun --ntasks-per-node=1"};
}

Result<> check_count(const Allocation& allocation, const Variables& variables,
                     std::string_view name) {
  const auto count = find_number(variables, name, kMostNodes);
  if (!count) return count.error();
  if (!*count || (*count)->value == allocation.nodes->value) return {};
  return Error{Errc::usage, text_of(variables, name) + ", but " + allocation.nodes->source +
                                " has " + std::to_string(allocation.nodes->value) + " hosts"};
}

/// A shell in a step that got its own allocation still has that step's variables.
Result<> check_step_in_job(const Hosts& step, const Variables& variables) {
  const std::string* list = find(variables, "SLURM_JOB_NODELIST");
  if (list == nullptr) return {};
  const Result<Hosts> job = expand_host_list(*list);
  if (!job) return Error(job.error()).in("SLURM_JOB_NODELIST");
  const std::set<std::string_view> hosts(job->begin(), job->end());
  const auto outside = std::ranges::find_if(
      step, [&hosts](const std::string& host) { return !hosts.contains(host); });
  if (outside == step.end()) return {};
  return Error{Errc::usage, text_of(variables, "SLURM_STEP_NODELIST") + " has " + *outside +
                                ", which " + text_of(variables, "SLURM_JOB_NODELIST") +
                                " does not have: the step is another job's"};
}

/// Sets only_a_part for several components of a heterogeneous job: Slurm tells the batch script the
/// hosts of the first component only, and the shell of salloc those of each component apart.
Result<> read_components(Allocation& allocation, const Variables& variables) {
  const auto components = find_number(variables, "SLURM_HET_SIZE", kMostNodes);
  if (!components) return components.error();
  if (!*components || (*components)->value <= 1) return {};
  allocation.only_a_part = text_of(variables, "SLURM_HET_SIZE") +
                           ", and ddprun starts no agents on several components: use srun "
                           "--het-group=0-" +
                           std::to_string((*components)->value - 1) + " --ntasks-per-node=1 ddprun";
  return {};
}

Result<> read_nodes(Allocation& allocation, const DetectionInput& input, bool in_step) {
  const Variables& variables = input.environment;
  if (!in_step) {
    const Result<> read = read_components(allocation, variables);
    if (!read || !allocation.only_a_part.empty()) return read;
  }
  const std::string name = in_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::string* list = find(variables, name);
  if (list == nullptr) return Error{Errc::usage, "SLURM_JOB_ID is set, but not " + name};
  Result<Hosts> hosts = expand_host_list(*list);
  if (!hosts) return Error(hosts.error()).in(name);
  if (in_step) {
    if (const Result<> checked = check_step_in_job(*hosts, variables); !checked) return checked;
  }
  const std::string_view own = own_name(input);
  const auto is_own = [own](const std::string& host) { return is_same_host(host, own); };
  if (!in_step && std::none_of(hosts->begin(), hosts->end(), is_own)) {
    take_hosts(allocation, std::move(*hosts), name);  // the shell of salloc, on a login node
  } else if (const Result<> placed = place_among(allocation, std::move(*hosts), name, own);
             !placed) {
    return placed;
  }
  const Result<> counted =
      check_count(allocation, variables, in_step ? "SLURM_STEP_NUM_NODES" : "SLURM_JOB_NUM_NODES");
  if (!counted || !in_step) return counted;
  return check_tasks(variables);
}

/// The id for Slurm's commands. One task of an array has the array's number as its job number,
/// which would mean all of its tasks: scontrol would requeue each.
std::string id_of(const Variables& variables, const std::string& job) {
  const std::string* array = find(variables, "SLURM_ARRAY_JOB_ID");
  const std::string* task = find(variables, "SLURM_ARRAY_TASK_ID");
  return array && task && *array == job ? job + "_" + *task : job;
}

}  // namespace

Result<std::optional<Allocation>> detect_slurm(const DetectionInput& input) {
  const Variables& variables = input.environment;
  const std::string* job = find(variables, "SLURM_JOB_ID");
  if (job == nullptr) return std::optional<Allocation>();
  Allocation allocation;
  const std::string* step = find(variables, "SLURM_STEP_ID");
  const bool in_step = is_step(step);
  allocation.id = id_of(variables, *job);
  allocation.job = *job + (in_step ? "." + *step : "");
  allocation.on_every_node = in_step;  // a batch script runs on the first node
  if (const Result<> read = read_nodes(allocation, input, in_step); !read) {
    return read.error();
  }
  const auto gpus = find_number(variables, "SLURM_GPUS_ON_NODE", 4096);
  if (!gpus) return gpus.error();
  allocation.gpus = *gpus;
  const auto reruns = find_number(variables, "SLURM_RESTART_COUNT", 1'000'000);
  if (!reruns) return reruns.error();
  allocation.reruns = *reruns;
  allocation.deadline = find_time(variables, "SLURM_JOB_END_TIME");  // not before 23.02
  allocation.deadline_query = {"SLURM_TIME_FORMAT=%s", "squeue",     "--noheader", "--jobs",
                               allocation.id,          "--format=%e"};
  return std::optional(std::move(allocation));
}

}  // namespace ddprun::engine
