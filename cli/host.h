// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "launcher/devices/devices.h"
#include "launcher/kernel/topology.h"

namespace ddprun::cli {

/// The host and environment that decide the meaning of a command line. Each function is called only
/// if its result is needed, and at most once.
struct Host {
  std::string name;
  std::vector<std::string> environment;    ///< "NAME=value"
  std::shared_ptr<Secret> secret;          ///< DDPRUN_SECRET, overwritten when it is read
  std::shared_ptr<Secret> etcd_user;       ///< name:password, of DDPRUN_ETCD_USER
  std::function<std::vector<int>()> cpus;  ///< on which this process may run, ascending
  std::function<Result<launcher::Topology>()> topology;                     ///< of these CPUs
  std::function<std::vector<std::string>(launcher::DeviceSearch)> devices;  ///< all GPUs
  /// The NUMA nodes closest to these GPUs, as launcher::numa_nodes gives them.
  std::function<std::vector<std::optional<int>>(const std::vector<std::string>& devices)> gpu_nodes;
  /// The content of a file, at most a MiB; nullopt: it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  /// The output of a command; nullopt: it cannot be run, or takes longer than 20 s.
  std::function<std::optional<std::string>(const std::vector<std::string>& words)> output_of;
  /// The text of a configuration file: read_config_file.
  std::function<Result<std::optional<std::string>>(const std::string& path, bool named)>
      read_config;
  /// The secret in a file. Errors: as read_secret_file.
  std::function<Result<Secret>(const std::string& path)> read_secret;
  /// Seals the secret of a job for this user's processes. Errors: as rendezvous::munge_seal.
  std::function<Result<std::string>(const Secret& secret, const std::string& run_id)> seal;
  std::function<Result<std::string>(const std::string& name)> find_program;
  std::function<std::vector<std::string>(const std::string& path)> needed_libraries;
  std::function<std::string()> executable;  ///< path of this program; empty: unknown
  std::function<std::string()> directory;   ///< the current one, by its name in the shell
  std::function<Result<>(const std::string& name)> check_script;
  std::function<bool()> has_terminal;  ///< stdin and stdout are terminals
  /// Names of the interfaces that have a link-local IPv6 address.
  std::function<std::vector<std::string>()> link_local_interfaces;
};

/// The values of variables that only ddprun reads; empty: not set.
struct TakenVariables {
  Secret secret;
  Secret etcd_user;
};

/// Takes them out of this process's environment, also as the kernel shows it.
TakenVariables take_variables();

/// The host of this process, and the rest of its environment.
Host this_host(TakenVariables taken);

}  // namespace ddprun::cli
