// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/exit_code.h"
#include "cli/options.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun {

using Words = std::vector<const char*>;

/// A host with four CPUs, two GPUs, every program in /bin, and every script.
inline cli::Host host(std::vector<std::string> environment = {},
                      std::vector<std::string> gpus = {"0", "1"}) {
  cli::Host host;
  host.name = "gpu-07";
  host.environment = std::move(environment);
  host.cpus = [] { return std::vector<int>{0, 1, 2, 3}; };
  host.devices = [gpus = std::move(gpus)](launcher::DeviceSearch) { return gpus; };
  host.seal = [](const Secret&, const std::string&) -> Result<std::string> {
    return Error{Errc::unreachable, "there is no munge here"};
  };
  host.link_local_interfaces = [] { return std::vector<std::string>{"eth0", "ib0"}; };
  host.read_file = [](const std::string&) { return std::nullopt; };
  host.output_of = [](const std::vector<std::string>&) { return std::nullopt; };
  host.read_config = [](const std::string&, bool) { return std::optional<std::string>(); };
  host.needed_libraries = [](const std::string&) { return std::vector<std::string>(); };
  host.find_program = [](const std::string& name) -> Result<std::string> { return "/bin/" + name; };
  host.check_script = [](const std::string&) -> Result<> { return {}; };
  host.has_terminal = [] { return true; };
  return host;
}

inline agent::JobSpec job(const Words& words, const cli::Host& on = host()) {
  return std::get<agent::JobSpec>(must(cli::parse(words, on)));
}

inline agent::JobSpec served(const Words& words, const cli::Host& on = host()) {
  return std::get<cli::Serve>(must(cli::parse(words, on))).job;
}

inline std::string printed(const Words& words, const cli::Host& on = host()) {
  return std::get<cli::Print>(must(cli::parse(words, on))).text;
}

/// The error message of a refused command line; checks that it is one line with exit code 2.
inline std::string refusal(const Words& words, const cli::Host& on = host()) {
  const Result<cli::Parsed> parsed = cli::parse(words, on);
  if (parsed) FAIL("was not refused");
  CHECK(cli::exit_code(parsed.error()) == 2);
  CHECK(parsed.error().message.find('\n') == std::string::npos);
  return parsed.error().message;
}

}  // namespace ddprun
