// SPDX-License-Identifier: Apache-2.0
#include "cli/host.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "agent/worker/worker_env.h"
#include "cli/line/config_file.h"
#include "cli/line/secret.h"
#include "cli/program.h"
#include "launcher/kernel/topology.h"
#include "launcher/process/command_output.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/secret/munge.h"

namespace ddprun::cli {
namespace {

constexpr std::chrono::seconds kCommandLimit{20};

std::string default_path() {
  const size_t size = confstr(_CS_PATH, nullptr, 0);
  std::string path(size, '\0');
  confstr(_CS_PATH, path.data(), size);
  path.resize(size > 0 ? size - 1 : 0);  // without the terminating zero
  return path;
}

std::optional<std::string> read_file(const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string content(kMost, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  return content;
}

/// Prefers PWD: it keeps the user's symbolic links, which other hosts may have, too.
std::string current_directory() {
  std::error_code failed;
  const char* shells = std::getenv("PWD");
  const std::filesystem::path here = std::filesystem::current_path(failed);
  const bool same = shells != nullptr && *shells == '/' &&
                    std::filesystem::equivalent(shells, here, failed) && !failed;
  return same ? shells : here.string();
}

std::string own_path() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

}  // namespace

TakenVariables take_variables() {
  return {take_variable(kSecretVariable), take_variable("DDPRUN_ETCD_USER")};
}

Host this_host(TakenVariables taken) {
  Host host;
  if (taken.secret) host.secret = std::make_shared<Secret>(std::move(taken.secret));
  if (taken.etcd_user) host.etcd_user = std::make_shared<Secret>(std::move(taken.etcd_user));
  host.read_secret = read_secret_file;
  host.seal = rendezvous::munge_seal;
  host.name = rendezvous::host_name();
  host.environment = launcher::own_environment();
  host.cpus = launcher::allowed_cpus;
  host.topology = [] { return launcher::discover_topology(launcher::allowed_cpus()); };
  host.devices = [](launcher::DeviceSearch search) { return launcher::find_devices(search); };
  host.gpu_nodes = [](const std::vector<std::string>& devices) {
    return launcher::numa_nodes(devices);
  };
  const char* path = agent::find_variable(host.environment, "PATH");
  host.find_program = [search = path ? std::string(path) : default_path()](
                          const std::string& name) { return find_program(name, search); };
  host.link_local_interfaces = rendezvous::link_local_interfaces;
  host.read_file = read_file;
  host.output_of = [](const std::vector<std::string>& words) {
    Result<std::string> output = launcher::output_of(words, kCommandLimit);
    return output ? std::optional(std::move(*output)) : std::nullopt;
  };
  host.needed_libraries = needed_libraries;
  host.read_config = read_config_file;
  host.check_script = check_script;
  host.has_terminal = [] { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; };
  host.executable = own_path;
  host.directory = current_directory;
  return host;
}

}  // namespace ddprun::cli
