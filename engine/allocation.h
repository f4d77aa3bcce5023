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

#include "base/error.h"
#include "engine/host_list.h"

// The job as described by the scheduler that started this process: Slurm, Kubernetes (Indexed Jobs,
// JobSets, Volcano), PBS, SGE, LSF or Flux. Pure: the caller passes environment and files.

namespace ddprun::engine {

enum class Engine { slurm, kubernetes, pbs, sge, lsf, flux };

/// Environment variables by name.
using Variables = std::map<std::string, std::string, std::less<>>;

/// The input of detection.
struct DetectionInput {
  Variables environment;
  std::string host;  ///< this host's name
  /// The content of a file; nullopt: it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  /// The output of a command; nullopt: there is no such command.
  std::function<std::optional<std::string>(const std::vector<std::string>& words)> output_of;
};

/// A value, and the variable or file that it comes from.
template <class T>
struct Sourced {
  T value{};
  std::string source;
};

/// An engine's job. A field is empty if the engine does not say it.
struct Allocation {
  Engine engine{};
  std::string job;  ///< the engine's own name for the job and its step: "4711.0"
  std::string id;   ///< the id for the engine's commands: "4711"; empty: they need none
  Hosts hosts;      ///< in the order of node ranks; may be empty
  /// Whether the engine starts a program on every node; else on the first node alone.
  bool on_every_node = true;
  /// Why this node does not know the nodes of the whole job, and what to do; empty: it does.
  std::string only_a_part;
  std::optional<Sourced<int>> nodes;
  std::optional<Sourced<int>> node_rank;
  std::optional<Sourced<int>> gpus;                           ///< of this node, given to the job
  std::optional<Sourced<std::string>> master;                 ///< the host of node rank 0
  std::optional<Sourced<std::chrono::sys_seconds>> deadline;  ///< when the engine ends the job
  /// The command that prints the deadline in seconds since 1970, if `deadline` is empty. Words such
  /// as NAME=value come first, as for env(1).
  std::vector<std::string> deadline_query;
  std::optional<Sourced<int>> reruns;  ///< how often the engine has started the job again
  /// The longest time between the engine's SIGTERM and its SIGKILL that ddprun's workers get. It
  /// leaves time for the report: Slurm's KillWait and Kubernetes' grace period are 30 s.
  std::chrono::seconds grace{25};
};

/// Ports where the rendezvous of a job of this name may listen: the same on every node. They are
/// below those that Linux gives to clients (ip_local_port_range begins at 32768), so that no client
/// takes one by chance.
std::vector<std::uint16_t> ports_of(std::string_view job);

// Values of the variables that engines set.

/// nullptr: it is not set, or empty.
const std::string* find(const Variables& variables, std::string_view name);

/// A whole number from 0 to `most`; nullopt: not set. Errors: usage, with name and value.
Result<std::optional<Sourced<int>>> find_number(const Variables& variables, std::string_view name,
                                                int most);

/// A moment in seconds since 1970; nullopt: not set, or not such a number.
std::optional<Sourced<std::chrono::sys_seconds>> find_time(const Variables& variables,
                                                           std::string_view name);

/// "NAME=value", for messages.
std::string text_of(const Variables& variables, std::string_view name);

/// Sets hosts, nodes and master to `hosts`, which come from `source`.
void take_hosts(Allocation& allocation, Hosts hosts, const std::string& source);

/// The same, and sets this node's rank: its position in `hosts`. Errors: usage (`own`, this host's
/// name, is not among them).
Result<> place_among(Allocation& allocation, Hosts hosts, const std::string& source,
                     std::string_view own);

}  // namespace ddprun::engine
