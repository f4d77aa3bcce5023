// SPDX-License-Identifier: Apache-2.0
#include "cli/host.h"

#include <cstdlib>
#include <sched.h>
#include <unistd.h>

#include "agent/worker_env.h"
#include "cli/program.h"

namespace ddprun::cli {
namespace {

/// The CPUs of our affinity mask, as nproc(1) counts them. A container's CPU quota is a share of
/// time, not a set of CPUs: torchrun's users do not expect it to count, and neither do we.
int usable_cpus() {
  for (size_t most = 1024; most <= 1 << 20; most *= 4) {  // the kernel refuses too small a mask
    std::vector<unsigned long> words(most / (8 * sizeof(unsigned long)));
    auto* mask = reinterpret_cast<cpu_set_t*>(words.data());
    const size_t bytes = words.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, mask) == 0) return CPU_COUNT_S(bytes, mask);
  }
  return 1;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

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
  host.cpus = usable_cpus;
  host.devices = [](launcher::DeviceSearch search) { return launcher::find_devices(search); };
  const char* path = agent::find_variable(host.environment, "PATH");
  host.find_program = [search = path ? std::string(path) : default_path()](
                          const std::string& name) { return find_program(name, search); };
  host.check_script = check_script;
  return host;
}

}  // namespace ddprun::cli
