// SPDX-License-Identifier: Apache-2.0
// PBS (qsub(1B)), SGE (qsub(1), sge_pe(5)), LSF (its environment variable reference) and Flux
// (flux-environment(7)). All except Flux start the job's script on the first host alone.
#include <climits>
#include <iterator>

#include "engine/allocation.h"
#include "engine/detect.h"

namespace ddprun::engine {
namespace {

/// Reads the file that a variable names.
Result<Hosts> read_hosts(const DetectionInput& input, std::string_view variable,
                         Result<Hosts> (*parse)(std::string_view)) {
  const std::string& path = *find(input.environment, variable);
  const std::optional<std::string> content = input.read_file(path);
  if (!content) {
    return Error{Errc::usage, text_of(input.environment, variable) + " cannot be read"};
  }
  Result<Hosts> hosts = parse(*content);
  if (!hosts) return Error(hosts.error()).in(std::string(variable));
  return hosts;
}

Result<std::optional<Allocation>> place(std::string job, Result<Hosts> hosts,
                                        std::string_view source, const DetectionInput& input) {
  if (!hosts) return hosts.error();
  Allocation allocation;
  allocation.job = std::move(job);
  allocation.on_every_node = false;
  const Result<> placed =
      place_among(allocation, std::move(*hosts), std::string(source), input.host);
  if (!placed) return placed.error();
  return std::optional(std::move(allocation));
}

}  // namespace

Result<std::optional<Allocation>> detect_pbs(const DetectionInput& input) {
  const std::string* job = find(input.environment, "PBS_JOBID");
  if (job == nullptr || !find(input.environment, "PBS_NODEFILE")) {
    return std::optional<Allocation>();
  }
  auto found =
      place(*job, read_hosts(input, "PBS_NODEFILE", hosts_of_lines), "PBS_NODEFILE", input);
  if (!found || !*found) return found;
  // The job's script is task 1 of node 0; pbsdsh starts further tasks.
  const auto task = find_number(input.environment, "PBS_TASKNUM", INT_MAX);
  const auto node = find_number(input.environment, "PBS_NODENUM", kMostHosts);
  for (const auto* number : {&task, &node}) {
    if (!*number) return number->error();
  }
  (*found)->on_every_node = (*task && (*task)->value > 1) || (*node && (*node)->value > 0);
  return found;
}

Result<std::optional<Allocation>> detect_sge(const DetectionInput& input) {
  const std::string* job = find(input.environment, "JOB_ID");
  if (job == nullptr || !find(input.environment, "PE_HOSTFILE")) {
    return std::optional<Allocation>();
  }
  auto found = place(*job, read_hosts(input, "PE_HOSTFILE", hosts_of_table), "PE_HOSTFILE", input);
  if (!found || !*found) return found;
  const auto reruns = find_number(input.environment, "RESTARTED", 1'000'000);
  if (!reruns) return reruns.error();
  (*found)->reruns = *reruns;
  return found;
}

Result<std::optional<Allocation>> detect_lsf(const DetectionInput& input) {
  const Variables& variables = input.environment;
  const std::string* job = find(variables, "LSB_JOBID");
  if (job == nullptr) return std::optional<Allocation>();
  if (const std::string* pairs = find(variables, "LSB_MCPU_HOSTS")) {
    Result<Hosts> hosts = hosts_of_pairs(*pairs);
    if (!hosts) return Error(hosts.error()).in("LSB_MCPU_HOSTS");
    return place(*job, std::move(hosts), "LSB_MCPU_HOSTS", input);
  }
  if (!find(variables, "LSB_DJOB_HOSTFILE")) {
    return Error{Errc::usage, "LSB_JOBID is set, but neither LSB_MCPU_HOSTS nor LSB_DJOB_HOSTFILE"};
  }
  return place(*job, read_hosts(input, "LSB_DJOB_HOSTFILE", hosts_of_lines), "LSB_DJOB_HOSTFILE",
               input);
}

constexpr std::string_view kFluxHosts = "flux hostlist local";

/// The hosts of the job, or else of the instance. nullopt: there is no such command.
Result<std::optional<Hosts>> flux_hosts(const DetectionInput& input) {
  auto text = input.output_of({"flux", "hostlist", "local"});
  while (text && text->ends_with('\n')) text->pop_back();
  if (!text || text->empty()) return std::optional<Hosts>();
  Result<Hosts> hosts = expand_host_list(*text);
  if (!hosts) return Error(hosts.error()).in(std::string(kFluxHosts));
  return std::optional(std::move(*hosts));
}

/// Detects the script of `flux batch` and the shell of `flux alloc`. They run on the first host of
/// an instance of their own, and no variable has its hosts.
Result<std::optional<Allocation>> detect_flux_script(const std::string& job,
                                                     const DetectionInput& input) {
  Result<std::optional<Hosts>> hosts = flux_hosts(input);
  if (!hosts) return hosts.error();
  if (!*hosts) {
    return Error{Errc::usage, text_of(input.environment, "FLUX_ENCLOSING_ID") + ", but '" +
                                  std::string(kFluxHosts) + "' prints no hosts"};
  }
  return place(job, std::move(**hosts), kFluxHosts, input);
}

/// The list is in the order of ranks, unless somebody has mapped the tasks otherwise.
Result<> take_flux_master(Allocation& allocation, const DetectionInput& input) {
  const Result<std::optional<Hosts>> hosts = flux_hosts(input);
  if (!hosts) return hosts.error();
  const auto& rank = allocation.node_rank;
  const bool fits = *hosts && rank && allocation.nodes &&
                    std::ssize(**hosts) == allocation.nodes->value &&
                    rank->value < allocation.nodes->value &&
                    is_same_host((**hosts)[static_cast<size_t>(rank->value)], input.host);
  if (fits) allocation.master = {(*hosts)->front(), std::string(kFluxHosts)};
  return {};
}

/// Flux gives each task its rank. With one task per node, this is the node's rank.
Result<std::optional<Allocation>> detect_flux(const DetectionInput& input) {
  const Variables& variables = input.environment;
  const std::string* job = find(variables, "FLUX_JOB_ID");
  if (job == nullptr) {
    const std::string* enclosing = find(variables, "FLUX_ENCLOSING_ID");
    if (enclosing == nullptr) return std::optional<Allocation>();
    return detect_flux_script(*enclosing, input);
  }
  Allocation allocation;
  allocation.job = *job;
  const auto nodes = find_number(variables, "FLUX_JOB_NNODES", kMostHosts);
  const auto rank = find_number(variables, "FLUX_TASK_RANK", kMostHosts);
  const auto tasks = find_number(variables, "FLUX_JOB_SIZE", 1 << 24);
  for (const auto* number : {&nodes, &rank, &tasks}) {
    if (!*number) return number->error();
  }
  if (*nodes && *tasks && (*tasks)->value != (*nodes)->value) {
    return Error{Errc::usage, text_of(variables, "FLUX_JOB_SIZE") + " tasks on " +
                                  text_of(variables, "FLUX_JOB_NNODES") +
                                  " nodes, and ddprun starts a node's workers itself: use flux run "
                                  "--tasks-per-node=1"};
  }
  allocation.nodes = *nodes;
  allocation.node_rank = *rank;
  if (const Result<> taken = take_flux_master(allocation, input); !taken) {
    return taken.error();
  }
  return std::optional(std::move(allocation));
}

}  // namespace ddprun::engine
