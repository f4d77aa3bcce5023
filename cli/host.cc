// SPDX-License-Identifier: Apache-2.0
#include "cli/host.h"

#include <cstdlib>
#include <unistd.h>

#include "agent/worker_env.h"
#include "base/host_name.h"
#include "cli/program.h"
#include "launcher/affinity.h"

namespace ddprun::cli {
namespace {

std::string default_path() {
  const size_t size = confstr(_CS_PATH, nullptr, 0);
  std::string path(size, '\0');
  confstr(_CS_PATH, path.data(), size);
  path.resize(size > 0 ? size - 1 : 0);  // without the terminating zero
  return path;
}

}  // namespace

Host this_host() {
  Host host;
  host.name = host_name();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    host.environment.emplace_back(*variable);
  }
  host.cpus = launcher::allowed_cpus;
  host.topology = [] { return launcher::discover_topology(launcher::allowed_cpus()); };
  host.devices = [](launcher::DeviceSearch search) { return launcher::find_devices(search); };
  host.gpu_nodes = [](const std::vector<std::string>& devices) {
    return launcher::numa_nodes(devices);
  };
  const char* path = agent::find_variable(host.environment, "PATH");
  host.find_program = [search = path ? std::string(path) : default_path()](
                          const std::string& name) { return find_program(name, search); };
  host.check_script = check_script;
  return host;
}

}  // namespace ddprun::cli
