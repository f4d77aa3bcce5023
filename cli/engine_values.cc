// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_values.h"

#include <utility>

#include "cli/usage_error.h"
#include "engine/detect.h"

namespace ddprun::cli {
namespace {

using engine::Allocation;
using engine::Engine;

engine::Surroundings surroundings_of(const Host& host) {
  engine::Surroundings surroundings;
  surroundings.host = host.name;
  surroundings.read_file = host.read_file;
  for (const std::string& variable : host.environment) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    surroundings.environment.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return surroundings;
}

/// How to start ddprun on every node.
std::string_view starter(Engine engine) {
  switch (engine) {
    case Engine::slurm:
      return "srun --ntasks-per-node=1 ddprun ...";
    case Engine::pbs:
      return "pbsdsh -u ddprun ...";
    case Engine::lsf:
      return "blaunch -z \"$LSB_HOSTS\" ddprun ...";
    case Engine::sge:
      return "qrsh -inherit HOST ddprun ... for each host";
    case Engine::flux:
    case Engine::kubernetes:
      break;
  }
  return "one ddprun a node";
}

/// Sets flags, and notes where each value is from.
class Filler {
 public:
  Filler(RawOptions& raw, const Allocation& allocation) : raw_(raw), allocation_(allocation) {}

  Result<> fill() {
    fill_workers();
    if (raw_.standalone) return {};
    Result<bool> whole = fill_nodes();
    if (!whole) return whole.error();
    if (*whole && starts_agents()) {
      start_agents();
    } else if (*whole && raw_.job.max_nodes > 1) {
      fill_rendezvous();
    }
    return {};
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

  void fill_workers() {
    if (allocation_.gpus && allocation_.gpus->value > 0 && !gives("nproc_per_node")) {
      raw_.local_size = {LocalSize::Kind::number, allocation_.gpus->value};
      note("--nproc_per_node " + std::to_string(allocation_.gpus->value), allocation_.gpus->source);
    }
    if (!gives("shutdown_timeout")) {
      raw_.job.stop_grace = allocation_.grace;
      note("--shutdown_timeout " + std::to_string(allocation_.grace.count()), "less than its own");
    }
  }

  /// Whether the nodes of the job are the engine's.
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

  /// Whether this process is the only one, and srun has to start the agents: in a batch script, or
  /// in the shell of salloc, on whichever host. Who says who hosts, or who is who, starts them.
  bool starts_agents() const {
    const auto& rank = allocation_.node_rank;
    const bool is_first = rank && rank->value == 0 && allocation_.nodes->value > 1;
    return allocation_.engine == Engine::slurm && !allocation_.on_every_node &&
           (!rank || is_first) && !gives("node_rank") && !gives("rdzv_endpoint") &&
           !gives("master_addr");
  }

  void start_agents() {
    raw_.remote.by_srun = true;
    raw_.remote.hosts.emplace();
    for (const std::string& host : allocation_.hosts) {
      raw_.remote.hosts->push_back({host, std::nullopt});
    }
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
      // By the rank, and not by the address: a name of the engine's may be unknown to the resolver.
      if (!job.is_host) job.is_host = *job.node_rank == 0;
      note("--master_addr " + *raw_.master_addr, allocation_.master->source);
    }
    if (!gives("rdzv_endpoint") && !gives("master_port")) {
      raw_.master_port = allocation_.ports().front();
      note("--master_port " + std::to_string(*raw_.master_port), "by the job");
    }
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
  if (raw.engine == "none") return std::string();
  const Result<std::optional<Allocation>> found =
      engine::detect(engine::parse_engine(raw.engine), surroundings_of(host));
  if (!found) return found.error();
  if (!*found) return std::string();
  Filler filler(raw, **found);
  if (const Result<> filled = filler.fill(); !filled) return filled.error();
  return filler.text();
}

}  // namespace ddprun::cli
