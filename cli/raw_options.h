// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/job_spec.h"
#include "remote/hosts.h"
#include "rendezvous/endpoint.h"

namespace ddprun::cli {

/// What a command line asks for.
enum class Mode {
  run,     ///< `ddprun program`: a node of a job
  serve,   ///< `ddprun serve`: the rendezvous alone
  doctor,  ///< `ddprun doctor`: whether a job would work
};

/// The value of --nproc_per_node: a number of workers, or which devices to count.
struct LocalSize {
  enum class Kind { number, gpu, cpu, automatic };

  Kind kind = Kind::number;
  int number = 1;  ///< >= 1; only for Kind::number
};

/// The hosts to start agents on, with one command.
struct RemoteOptions {
  std::optional<remote::HostNames> hosts;  ///< --hosts, or those of the scheduler
  std::string host_file;                   ///< --hostfile; empty: none
  std::string ssh = "ssh";
  bool by_srun = false;               ///< in a job of Slurm: srun starts them
  std::vector<std::string> exported;  ///< names of variables, perhaps with a * at their end

  bool are_asked() const { return hosts || !host_file.empty(); }
};

/// The options as given, before resolve_* looks at the host and at other options.
struct RawOptions {
  agent::JobSpec job;  ///< options that are independent of others and of the host
  std::set<std::string_view>
      given;                    ///< flags with a value of the user's: command line, environment
  std::string engine = "auto";  ///< --engine
  LocalSize local_size;
  std::optional<std::string> master_addr;       ///< from --rdzv_endpoint or --master_addr
  std::optional<std::uint16_t> master_port;     ///< from --rdzv_endpoint or --master_port
  std::vector<rendezvous::Endpoint> endpoints;  ///< all of --rdzv_endpoint; port 0: not given
  bool by_etcd = false;                         ///< --rdzv_backend etcd
  std::string port_source;                      ///< the flag that gave the port, with its value
  bool has_endpoint = false;                    ///< --rdzv_endpoint was given
  std::string secret_file;                      ///< --secret_file; empty: not given
  bool standalone = false;
  std::optional<std::string> prefix;  ///< the template the user gave
  bool no_prefix = false;
  bool module = false;     ///< the program is the name of a Python module
  bool no_python = false;  ///< execute the program directly, even if it ends in .py
  bool dry_run = false;
  std::string shell;    ///< --print_completion; empty: not given
  bool doctor = false;  ///< `ddprun doctor`
  bool json = false;    ///< its report in JSON
  RemoteOptions remote;
  std::string rdzv_conf;          ///< --rdzv_conf as given
  bool has_separator = false;     ///< "--" preceded the program; a later one belongs to it
  bool ignore_node_rank = false;  ///< with c10d, nodes are ranked by order of joining
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
