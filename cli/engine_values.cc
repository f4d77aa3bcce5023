// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_values.h"

#include <chrono>
#include <utility>

#include "cli/line/usage_error.h"
#include "engine/detect.h"
#include "launcher/process/exit_status.h"

namespace ddprun::cli {
namespace {

using engine::Allocation;
using engine::Engine;

engine::DetectionInput detection_input(const Host& host) {
  engine::DetectionInput input;
  input.host = host.name;
  input.read_file = host.read_file;
  input.output_of = host.output_of;
  for (const std::string& variable : host.environment) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    input.environment.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return input;
}

/// How to start ddprun on every node.
std::string_view starter(Engine engine) {
  switch (engine) {
    case Engine::slurm:
      return "srun --ntasks-per-node=1 ddprun ...";
    case Engine::pbs:
      return "pbsdsh -n LINE -- ddprun --nnodes N ... for each host";
    case Engine::lsf:
      return "blaunch -z \"$LSB_HOSTS\" ddprun --nnodes N ...";
    case Engine::sge:
      return "qrsh -inherit HOST ddprun --nnodes N ... for each host";
    case Engine::flux:
      return "flux run --nodes N --tasks-per-node=1 ddprun ...";
    case Engine::kubernetes:
      break;
  }
  return "one ddprun a node";
}

/// The program that starts the agents; nullopt: the engine starts everything itself.
std::optional<remote::Starter> agent_starter(Engine engine) {
  if (engine == Engine::slurm) return remote::Starter::srun;
  if (engine == Engine::lsf) return remote::Starter::blaunch;
  if (engine == Engine::sge) return remote::Starter::qrsh;
  if (engine == Engine::pbs) return remote::Starter::ssh;
  if (engine == Engine::flux) return remote::Starter::flux;
  return std::nullopt;
}

std::string deadline_text(const DeadlineSignal& signal) {
  return launcher::signal_name(signal.signal) + "@" +
         std::to_string(std::chrono::round<std::chrono::seconds>(signal.notice).count()) + "s";
}

Error requeue_error() {
  return usage_error("--requeue is for jobs of Slurm, and this is not one: leave it out");
}

Result<std::string> without_engine(const RawOptions& raw) {
  if (raw.requeue) return requeue_error();
  return std::string();
}

/// Sets flags, and notes the source of each value.
class Filler {
 public:
  Filler(RawOptions& raw, const Allocation& allocation) : raw_(raw), allocation_(allocation) {}

  Result<> fill() {
    fill_workers();
    if (const Result<> filled = fill_job(); !filled) return filled;
    fill_deadline();
    return fill_requeue();
  }

  std::string text() const {
    return notes_.empty() ? ""
                          : std::string(name_of(allocation_.engine)) + " job " + allocation_.job +
                                ": " + notes_;
  }

 private:
  bool gives(std::string_view flag) const { return raw_.given.contains(flag); }

  void note(const std::string& value, const std::string& source) {
    notes_ += (notes_.empty() ? "" : ", ") + value + " (" + source + ")";
  }

  /// Fills in the job's nodes and rendezvous.
  Result<> fill_job() {
    if (raw_.standalone) return {};
    if (!allocation_.only_a_part.empty()) return check_part();
    Result<bool> whole = fill_nodes();
    if (!whole) return whole.error();
    const auto program = agent_starter(allocation_.engine);
    if (*whole && program && starts_agents()) {
      start_agents(*program);
    } else if (*whole && raw_.job.max_nodes > 1) {
      fill_rendezvous();
    }
    return {};
  }

  void fill_workers() {
    if (allocation_.gpus && allocation_.gpus->value > 0 && !gives("nproc_per_node")) {
      raw_.local_size = {LocalSize::Kind::number, allocation_.gpus->value};
      note("--nproc_per_node " + std::to_string(allocation_.gpus->value), allocation_.gpus->source);
    } else if (!gives("nproc_per_node") && counts_gpus()) {
      raw_.local_size = {LocalSize::Kind::gpu_or_one, 1};
      note("--nproc_per_node gpu-or-1", "the GPUs that this node has");
    }
    if (!gives("shutdown_timeout")) {
      raw_.job.stop_grace = allocation_.grace;
      note("--shutdown_timeout " + std::to_string(allocation_.grace.count()), "less than its own");
    }
  }

  /// Whether to count this node's GPUs: only Slurm says how many of them a job has.
  bool counts_gpus() const { return allocation_.engine != Engine::slurm; }

  std::string whole_job() const {
    return std::string(name_of(allocation_.engine)) + " job " + allocation_.id;
  }

  void fill_deadline() {
    const auto& end = allocation_.deadline;
    if (!raw_.deadline_signal || (!end && allocation_.deadline_query.empty())) return;
    agent::Deadline& deadline = raw_.job.deadline.emplace();
    deadline.signal = raw_.deadline_signal->signal;
    deadline.notice = raw_.deadline_signal->notice;
    deadline.job = whole_job();
    if (end) deadline.end = end->value;
    deadline.query = allocation_.deadline_query;
    note("--deadline_signal " + deadline_text(*raw_.deadline_signal),
         "the end: " + (end ? end->source : "squeue"));
  }

  /// The node of rank 0 requeues the job, or the one command that starts all nodes.
  Result<> fill_requeue() {
    if (!raw_.requeue) return {};
    if (allocation_.engine != Engine::slurm) return requeue_error();
    if (allocation_.node_rank && allocation_.node_rank->value > 0) return {};
    RequeueSpec& requeue = raw_.job.requeue.emplace();
    requeue.name = whole_job();
    requeue.id = allocation_.id;
    requeue.most = *raw_.requeue;
    requeue.so_far = allocation_.reruns ? allocation_.reruns->value : 0;
    if (!raw_.deadline_signal) return {};
    requeue.deadline_signal = raw_.deadline_signal->signal;
    requeue.notice = raw_.deadline_signal->notice;
    return {};
  }

  /// A part of the engine's job is enough with --nnodes 1, or with --nnodes and the master's host.
  Result<> check_part() const {
    const bool by_hand = gives("rdzv_endpoint") || gives("master_addr");
    if (gives("nnodes") && (raw_.job.max_nodes == 1 || by_hand)) return {};
    return usage_error(allocation_.only_a_part + ", or give --nnodes 1 or --engine none");
  }

  /// Returns whether the job has all nodes of the engine's job.
  Result<bool> fill_nodes() {
    const auto& nodes = allocation_.nodes;
    if (gives("nnodes")) return !nodes || nodes->value == raw_.job.max_nodes;
    const std::string name(name_of(allocation_.engine));
    if (!nodes) {
      return usage_error(name + " does not say how many nodes job " + allocation_.job +
                         " has: give --nnodes (1: each on its own)");
    }
    if (nodes->value > 1 && !allocation_.on_every_node && !starts_agents()) {
      return usage_error(name + " job " + allocation_.job + " has " + std::to_string(nodes->value) +
                         " nodes, and this is its first one alone: start ddprun on every node, "
                         "with " +
                         std::string(starter(allocation_.engine)) +
                         ", or give --nnodes 1 or --engine none");
    }
    raw_.job.min_nodes = raw_.job.max_nodes = nodes->value;
    note("--nnodes " + std::to_string(nodes->value), nodes->source);
    return true;
  }

  /// Whether this process is the only one, and has to start the agents: in a batch script, or in
  /// the shell of salloc, on any host. If the user names the rendezvous' host or the node's rank,
  /// they start the agents by hand. The same holds if they give the number of nodes, and the
  /// engine's own program may have started this process.
  bool starts_agents() const {
    const auto& rank = allocation_.node_rank;
    const auto& nodes = allocation_.nodes;
    const bool is_first = rank && rank->value == 0 && nodes && nodes->value > 1;
    const bool may_have_started_this =
        allocation_.engine != Engine::lsf && allocation_.engine != Engine::sge;
    const bool by_user = gives("nnodes") && !may_have_started_this;
    return agent_starter(allocation_.engine) && !allocation_.on_every_node && (!rank || is_first) &&
           !gives("node_rank") && !gives("rdzv_endpoint") && !gives("master_addr") && !by_user;
  }

  /// Takes ports from the job's id, so that each node has the same ones.
  void take_ports() {
    std::vector<std::uint16_t> ports = engine::ports_of(allocation_.job);
    raw_.master_port = ports.front();
    note("--master_port " + std::to_string(*raw_.master_port), "by the job");
    if (!raw_.job.is_host) return;  // without it the other ports have no order
    ports.erase(ports.begin());
    raw_.job.more_ports = std::move(ports);
    note("--rdzv_conf " + more_ports_text(raw_.job.more_ports), "by the job");
  }

  void start_agents(remote::Starter program) {
    raw_.remote.starter = program;
    raw_.remote.ports = engine::ports_of(allocation_.job);
    raw_.remote.hosts.emplace();
    for (const std::string& host : allocation_.hosts) {
      raw_.remote.hosts->push_back({host, std::nullopt});
    }
    if (program == remote::Starter::ssh) raw_.remote.instead = starter(allocation_.engine);
    note("an agent on each node", allocation_.nodes->source);
  }

  void fill_rendezvous() {
    agent::JobSpec& job = raw_.job;
    if (!gives("node_rank") && allocation_.node_rank) {
      job.node_rank = allocation_.node_rank->value;
      note("--node_rank " + std::to_string(*job.node_rank), allocation_.node_rank->source);
    }
    const bool has_host = gives("rdzv_endpoint") || gives("master_addr");
    if (!has_host && allocation_.master && job.node_rank) {
      raw_.master_addr = allocation_.master->value;
      // The rank decides, not the address: the resolver may not know the engine's name.
      if (!job.is_host) job.is_host = *job.node_rank == 0;
      note("--master_addr " + *raw_.master_addr, allocation_.master->source);
    }
    if (!gives("rdzv_endpoint") && !gives("master_port")) take_ports();
    if (!gives("rdzv_id")) {
      job.run_id = std::string(name_of(allocation_.engine)) + "-" + allocation_.job;
      note("--rdzv_id " + job.run_id, "the job");
    }
  }

  RawOptions& raw_;
  const Allocation& allocation_;
  std::string notes_;
};

}  // namespace

Result<std::string> apply_engine(RawOptions& raw, const Host& host) {
  if (raw.engine == "none") return without_engine(raw);
  const Result<std::optional<Allocation>> found =
      engine::detect(engine::parse_engine(raw.engine), detection_input(host));
  if (!found) return found.error();
  if (!*found) return without_engine(raw);
  raw.in_slurm = (*found)->engine == Engine::slurm;
  Filler filler(raw, **found);
  if (const Result<> filled = filler.fill(); !filled) return filled.error();
  return filler.text();
}

bool is_in_slurm(const RawOptions& raw, const Host& host) {
  if (raw.engine == "none") return false;
  const Result<std::optional<Allocation>> found =
      engine::detect(std::nullopt, detection_input(host));
  return found && *found && (*found)->engine == Engine::slurm;
}

}  // namespace ddprun::cli
