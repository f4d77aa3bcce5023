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
  all,      ///< every worker all of the node's: `cuda:LOCAL_RANK` works
  isolate,  ///< each worker its own block of the list, divided evenly
};

/// The process that serves the store at MASTER_ADDR:MASTER_PORT.
enum class StoreHost {
  agent,   ///< the master's agent; every rank is a client
  worker,  ///< rank 0, on a port of its own
  tunnel,  ///< as agent; the ranks reach it through their own node's agent, which encrypts
};

/// Whether workers write to pseudo-terminals, where what they write is only shown.
enum class Tty {
  automatic,  ///< stdout and stderr each: where ddprun's own is a terminal
  never,
  always,
};

/// When the scheduler ends the job, and what the workers get before it does.
struct Deadline {
  int signal = 0;
  std::chrono::milliseconds notice{};           ///< so long before
  std::string job;                              ///< "slurm job 42"
  std::optional<std::chrono::sys_seconds> end;  ///< nullopt: the answer to `query`
  std::vector<std::string> query;               ///< a command that prints it, in seconds since 1970
};

/// The id of a job without --rdzv_id, as torchrun has it.
inline constexpr const char* kNoId = "none";

/// Everything the user decided; plain data. Only cli/ fills it, so nothing else reads argv. The
/// number of nodes, the timeouts and what to survive are in the rendezvous' part of it, RoundSpec
/// and LeaseSpec.
struct JobSpec : rendezvous::RoundSpec, rendezvous::LeaseSpec {
  using milliseconds = std::chrono::milliseconds;

  // The program.
  std::vector<std::string> command;  ///< argv of every worker, program first
  std::size_t own_arguments = 1;     ///< where in it the program's own begin; after a script's name
  bool workers_report = false;       ///< one that exits with 1 has told the user why
  std::string local_rank_flag;       ///< each worker gets it there, with =LOCAL_RANK; empty: none
  std::string program;               ///< path of the executable, resolved, checked to be one
  std::optional<Error> cannot_run;   ///< there is none here, which the other nodes have to know
  int local_size = 1;                ///< workers on this node, >= 1

  std::vector<std::string> origins;    ///< for people: where values are from, a line each
  std::vector<std::string> warnings;   ///< what the user should know; said at the start
  std::optional<Deadline> deadline;    ///< nullopt: the workers get no signal before it
  std::optional<RequeueSpec> requeue;  ///< nullopt: not by this node

  // The members of the job.
  std::string run_id = kNoId;                     ///< agents with another id are refused
  std::optional<int> node_rank;                   ///< not given: by order of joining
  std::optional<rendezvous::etcd::Servers> etcd;  ///< elects the master; the next three are its
  std::string master_addr = "127.0.0.1";  ///< as the user gave it; empty: any address (serve only)
  std::uint16_t master_port = 0;          ///< 0: any free port (one node only)
  /// Where the master is if another job, or another program, has master_port: the first that it
  /// finds free. All nodes have the same ones. Where there are any, is_host is known.
  std::vector<std::uint16_t> more_ports;
  std::optional<bool> is_host;  ///< hosts the rendezvous; not given: if the address is ours
  std::shared_ptr<const rendezvous::Security> security;  ///< nullptr: the job has no secret
  std::string sealed_secret;  ///< of `security`, by munge: the other nodes take the master's;
                              ///< empty: each was given the secret
  std::string local_addr;     ///< the address to connect from; empty: any
  std::string interface;      ///< towards another node; empty: there is none, or not known yet

  // How it stops.
  milliseconds stop_grace{30'000};  ///< first signal to SIGKILL; 0 kills at once
  std::vector<int> signals_to_handle{launcher::kStopSignals.begin(),  ///< these stop the job
                                     launcher::kStopSignals.end()};

  std::string progress_pattern;  ///< lines of output that match it are progress; empty: none are

  // The workers' environment.
  std::vector<std::string> devices;  ///< the node's GPUs, as CUDA_VISIBLE_DEVICES names them
  GpuBind gpu_bind = GpuBind::all;
  bool virtual_local_rank = false;  ///< each has LOCAL_RANK 0, and one GPU: that of its local rank
  StoreHost store = StoreHost::agent;
  std::string role = "default";  ///< ROLE_NAME

  // Where workers run.
  std::optional<launcher::NumaBinding> numa_binding;  ///< nullopt: where ddprun may
  std::vector<launcher::Binding> bindings;  ///< of each local rank, if either flag is given
  bool report_bindings = false;             ///< say so before they start

  // Output.
  Tty tty = Tty::automatic;
  std::optional<int> debugged_rank;  ///< it reads stdin, and no other one is shown; nullopt: none
  Colour colour = Colour::automatic;
  std::optional<std::string> prefix;        ///< template of line prefixes; nullopt: no prefix
  std::string log_dir;                      ///< of log and error files; empty: a temporary one
  std::string error_file;                   ///< the root cause is copied there; empty: nowhere
  launcher::LogSpec logs;                   ///< what of the output goes there
  std::optional<rendezvous::Endpoint> web;  ///< where its page is, an IP address; nullopt: nowhere
  std::string events_file;                  ///< JSON lines are appended here; empty: none
  log::Level log_level = log::Level::info;  ///< ddprun's own lines below it are dropped
  log::Format log_format = log::Format::text;
};

}  // namespace ddprun::agent
