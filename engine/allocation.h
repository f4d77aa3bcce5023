// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host_list.h"

// The job, as the scheduler describes it that started this process: Slurm, Kubernetes (Indexed
// Jobs, JobSets, Volcano), PBS, SGE, LSF or Flux. Pure: environment and files are given.

namespace ddprun::engine {

enum class Engine { slurm, kubernetes, pbs, sge, lsf, flux };

/// The input of detection.
struct Surroundings {
  std::map<std::string, std::string, std::less<>> environment;
  std::string host;  ///< this host's name
  /// The content of a file; nullopt: it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  /// What a command prints; nullopt: there is no such command.
  std::function<std::optional<std::string>(const std::vector<std::string>& words)> output_of;
};

/// A value, and the variable or file that it is from.
template <class T>
struct Known {
  T value{};
  std::string source;
};

/// An engine's job, as far as the engine says. A field without a value: it does not say.
struct Allocation {
  Engine engine{};
  std::string job;  ///< the engine's own name for it, and for the step in it: "4711.0"
  std::string id;   ///< as the engine's commands take it: "4711"; empty: none is needed
  Hosts hosts;      ///< in the order of node ranks; may be empty
  /// Whether the engine starts a program on every node; else it runs on the first one alone.
  bool on_every_node = true;
  /// Why the nodes of the whole job are not known here, and what to do; empty: they are.
  std::string only_a_part;
  std::optional<Known<int>> nodes;
  std::optional<Known<int>> node_rank;
  std::optional<Known<int>> gpus;                           ///< of this node, given to the job
  std::optional<Known<std::string>> master;                 ///< the host of node rank 0
  std::optional<Known<std::chrono::sys_seconds>> deadline;  ///< when the engine ends the job
  /// Prints the deadline in seconds since 1970, where it is not known otherwise; words such as
  /// NAME=value, as for env(1), come first.
  std::vector<std::string> deadline_query;
  std::optional<Known<int>> reruns;  ///< how often the engine has started the job again
  /// Between the engine's SIGTERM and its SIGKILL ddprun's workers get no longer than this, so that
  /// there is time for the report: Slurm's KillWait and Kubernetes' grace period are 30 s.
  std::chrono::seconds grace{25};
};

/// Where the rendezvous of a job of this name may listen: the same ports on every node, below those
/// that Linux gives to clients (ip_local_port_range begins at 32768), so that none is taken by
/// chance.
std::vector<std::uint16_t> ports_of(std::string_view job);

}  // namespace ddprun::engine
