// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/colour.h"
#include "base/error.h"
#include "base/log.h"
#include "base/requeue_spec.h"
#include "launcher/kernel/binding.h"
#include "launcher/output/log_spec.h"
#include "launcher/process/signals.h"
#include "rendezvous/etcd/servers.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/spec.h"

namespace ddprun::agent {

/// The GPUs that a worker sees.
enum class GpuBind {
  all,      ///< every worker sees all of the node's: `cuda:LOCAL_RANK` works
  isolate,  ///< each worker sees its own block of the list, divided evenly
};

/// The process that serves the store at MASTER_ADDR:MASTER_PORT.
enum class StoreHost {
  agent,   ///< the master's agent; every rank is a client
  worker,  ///< rank 0, on a port of its own
  tunnel,  ///< as agent; the ranks reach it through their own node's agent, which encrypts
};

/// How ranks of MPI find each other.
enum class Mpi {
  none,  ///< not at all: each is rank 0 of 1, unless another launcher's variables are inherited
  pmi1,  ///< MPICH's way, also Intel MPI's
  pmix,  ///< Open MPI's
  both,
};
constexpr bool has_pmi1(Mpi mpi) {
  return mpi == Mpi::pmi1 || mpi == Mpi::both;
}
constexpr bool has_pmix(Mpi mpi) {
  return mpi == Mpi::pmix || mpi == Mpi::both;
}

/// Whether workers write to pseudo-terminals, if their output is only shown.
enum class Tty {
  automatic,  ///< for stdout and stderr each: if ddprun's own is a terminal
  never,
  always,
};

/// When the scheduler ends the job, and the signal that the workers get before.
struct Deadline {
  int signal = 0;
  std::chrono::milliseconds notice{};           ///< from the signal to the end
  std::string job;                              ///< "slurm job 42"
  std::optional<std::chrono::sys_seconds> end;  ///< nullopt: the answer to `query`
  std::vector<std::string> query;               ///< a command that prints it, in seconds since 1970
};

/// The id of a job without --rdzv_id, as in torchrun.
inline constexpr const char* kNoId = "none";

/// Everything the user decided; plain data. Only cli/ fills it, so nothing else reads argv. The
/// rendezvous' part, RoundSpec and LeaseSpec, has the number of nodes, the timeouts, and the losses
/// to survive.
struct JobSpec : rendezvous::RoundSpec, rendezvous::LeaseSpec {
  using milliseconds = std::chrono::milliseconds;

  // The program.
  std::vector<std::string> command;  ///< argv of every worker, program first
  std::size_t own_arguments = 1;     ///< index of the user's first argument, after a script's name
  bool workers_report = false;       ///< a worker that exits with 1 has told the user why
  std::vector<std::string> preload;  ///< modules that python imports once for all workers of a node
  std::string local_rank_flag;       ///< inserted there, with =LOCAL_RANK; empty: none
  std::string program;               ///< resolved path, checked to be an executable
  std::optional<Error> cannot_run;   ///< why this node has no program; the other nodes learn it
  int local_size = 1;                ///< workers on this node, >= 1

  std::vector<std::string> origins;    ///< where values come from, a line each, to be shown
  std::vector<std::string> warnings;   ///< logged at the start
  std::optional<Deadline> deadline;    ///< nullopt: none is known, or no signal is wanted
  std::optional<RequeueSpec> requeue;  ///< nullopt: this node does not requeue

  // The members of the job.
  std::string run_id = kNoId;                     ///< the master refuses agents with another id
  std::optional<int> node_rank;                   ///< nullopt: by order of joining
  std::optional<rendezvous::etcd::Servers> etcd;  ///< elects the master; the next three are for it
  std::string master_addr = "127.0.0.1";  ///< as the user gave it; empty: any address (serve only)
  std::uint16_t master_port = 0;          ///< 0: any free port (one node only)
  /// If another job or program has master_port, the master takes the first free one of these. They
  /// are the same on all nodes. If there are any, is_host has a value.
  std::vector<std::uint16_t> more_ports;
  std::optional<bool> is_host;  ///< hosts the rendezvous; nullopt: if the address is this host's
  std::shared_ptr<const rendezvous::Security> security;  ///< nullptr: the job has no secret
  std::string sealed_secret;  ///< of `security`, by munge; the other nodes take the master's;
                              ///< empty: the user gave each node the secret
  std::string local_addr;     ///< the address to connect from; empty: any
  std::string interface;      ///< towards another node; empty: none, or not known yet

  // How it stops.
  milliseconds stop_grace{30'000};  ///< first signal to SIGKILL; 0 kills at once
  std::vector<int> signals_to_handle{launcher::kStopSignals.begin(),  ///< these stop the job
                                     launcher::kStopSignals.end()};

  bool flight_recorder = true;   ///< Python workers report their collective calls on request
  std::string progress_pattern;  ///< matching lines of output are progress; empty: none

  // The workers' environment.
  std::vector<std::string> devices;  ///< the node's GPUs, as CUDA_VISIBLE_DEVICES names them
  GpuBind gpu_bind = GpuBind::all;
  bool virtual_local_rank = false;  ///< each has LOCAL_RANK 0, and only its local rank's GPU
  StoreHost store = StoreHost::agent;
  Mpi mpi = Mpi::none;
  bool mpi_ft = false;           ///< ranks of Open MPI survive the loss of others
  bool may_lack_mpi = false;     ///< a script with no --mpi: its use of MPI is unknown
  bool is_crowded = false;       ///< this node has more workers than CPUs
  std::string role = "default";  ///< ROLE_NAME

  // The workers' bindings.
  std::optional<launcher::NumaBinding> numa_binding;  ///< nullopt: where ddprun may
  std::vector<launcher::Binding> bindings;            ///< by local rank, if either flag is given
  bool report_bindings = false;                       ///< log the bindings before the workers start

  // Output.
  Tty tty = Tty::automatic;
  std::optional<int> debugged_rank;  ///< it reads stdin, and ddprun shows only it; nullopt: none
  Colour colour = Colour::automatic;
  std::optional<std::string> prefix;        ///< template of line prefixes; nullopt: no prefix
  std::string log_dir;                      ///< of log and error files; empty: a temporary one
  std::string error_file;                   ///< gets a copy of the root cause's; empty: none
  launcher::LogSpec logs;                   ///< the output that goes to log_dir
  std::optional<rendezvous::Endpoint> web;  ///< IP address and port of its page; nullopt: no page
  std::string events_file;                  ///< gets JSON lines; empty: no file
  log::Level log_level = log::Level::info;  ///< ddprun's own lines below it are dropped
  log::Format log_format = log::Format::text;
};

// The user's command, without what ddprun puts before it, such as the path of python.

/// The name by which a user knows the job: its --rdzv_id, or without one its program, "train.py".
std::string job_name(const JobSpec& job);

/// The command for messages: its words with a space between them, cut and printable.
std::string command_text(const JobSpec& job);

/// A hash of its words, below 2^53.
std::uint64_t command_hash(const JobSpec& job);

}  // namespace ddprun::agent
