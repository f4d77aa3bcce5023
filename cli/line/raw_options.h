// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/job/job_spec.h"
#include "cli/line/rdzv_conf.h"
#include "remote/hosts.h"
#include "remote/starters.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::cli {

/// The request of a command line.
enum class Mode {
  run,     ///< `ddprun program`: a node of a job
  serve,   ///< `ddprun serve`: the rendezvous alone
  doctor,  ///< `ddprun doctor`: whether a job would work
};

/// The value of --nproc_per_node: a number of workers, or which devices to count.
struct LocalSize {
  enum class Kind { number, gpu, cpu, automatic, gpu_or_one };

  Kind kind = Kind::number;
  int number = 1;  ///< >= 1; only for Kind::number
};

/// The value of --deadline_signal.
struct DeadlineSignal {
  int signal = SIGUSR2;
  std::chrono::milliseconds notice{90'000};  ///< from the signal to the deadline
};

/// The hosts to start agents on, with one command.
struct RemoteOptions {
  std::optional<remote::HostNames> hosts;  ///< --hosts, or the scheduler's
  std::string host_file;                   ///< --hostfile; empty: none
  std::string ssh = "ssh";
  remote::Starter starter = remote::Starter::ssh;  ///< another one in the scheduler's job
  std::string instead;                             ///< remote::FailedStart::instead
  std::vector<std::uint16_t> ports;   ///< of the rendezvous, by the scheduler's job; empty: any
  std::vector<std::string> exported;  ///< names of variables, perhaps with a * at their end

  bool by_srun() const { return starter == remote::Starter::srun; }
  bool are_asked() const { return hosts || !host_file.empty(); }
};

/// The options as given, before resolve_* looks at the host and at other options.
struct RawOptions {
  agent::JobSpec job;  ///< options that are independent of others and of the host
  std::set<std::string_view>
      given;  ///< flags that the user has set: by command line, environment or file
  /// Values that are not from the command line: "--nnodes 2", and their source.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> config_options;  ///< those of the file, as options of a command line
  std::string unread_config;                ///< why the found file is not read; empty: it is
  std::string engine = "auto";              ///< --engine
  std::optional<DeadlineSignal> deadline_signal = DeadlineSignal();  ///< nullopt: none
  std::optional<int> requeue;                                        ///< --requeue
  LocalSize local_size;
  std::optional<std::string> master_addr;       ///< from --rdzv_endpoint or --master_addr
  std::optional<std::uint16_t> master_port;     ///< from --rdzv_endpoint or --master_port
  std::vector<rendezvous::Endpoint> endpoints;  ///< all of --rdzv_endpoint; port 0: not given
  bool by_etcd = false;                         ///< --rdzv_backend etcd
  EtcdConf etcd_conf;                           ///< from --rdzv_conf
  std::string port_source;                      ///< the flag that gave the port, with its value
  bool has_endpoint = false;                    ///< --rdzv_endpoint was given
  std::string secret_file;                      ///< --secret_file; empty: not given
  bool in_slurm = false;                        ///< the engine is Slurm
  std::optional<agent::Mpi> mpi;                ///< --mpi; nullopt: by the program's libraries
  bool standalone = false;
  std::optional<std::string> prefix;  ///< the template the user gave
  bool no_prefix = false;
  bool module = false;     ///< the program is the name of a Python module
  bool run_path = false;   ///< the program is a path for Python's runpy
  bool no_python = false;  ///< execute the program directly, even if it ends in .py
  bool dry_run = false;
  std::string shell;    ///< --print_completion; empty: not given
  bool doctor = false;  ///< `ddprun doctor`
  bool json = false;    ///< --json: the doctor's report in JSON
  bool bench = false;   ///< --bench: the doctor loads the network
  RemoteOptions remote;
  std::string rdzv_conf;          ///< --rdzv_conf as given
  bool has_separator = false;     ///< "--" preceded the program; a later one belongs to it
  bool ignore_node_rank = false;  ///< c10d and etcd rank nodes by order of joining
};

/// Whether a flag accepted its value. Converts from the bool that says so.
class SetResult {
 public:
  SetResult(bool accepted) : accepted_(accepted) {}  // NOLINT(google-explicit-constructor)

  /// Refused for a reason other than Flag::expects; the reason follows the flag's name.
  static SetResult refused(std::string reason) {
    SetResult result(false);
    result.reason_ = std::move(reason);
    return result;
  }

  explicit operator bool() const { return accepted_; }
  const std::string& reason() const { return reason_; }  ///< empty: see Flag::expects

 private:
  bool accepted_;
  std::string reason_;
};

}  // namespace ddprun::cli
