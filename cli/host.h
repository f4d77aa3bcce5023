// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/devices.h"

namespace ddprun::cli {

/// What the command line's meaning depends on beyond its words. The functions are called only when
/// an answer is needed, and at most once each.
struct Host {
  std::string name;
  std::vector<std::string> environment;  ///< "NAME=value"
  std::function<int()> cpus;             ///< how many this process may run on
  std::function<std::vector<std::string>(launcher::DeviceSearch)> devices;  ///< all of its GPUs
  std::function<Result<std::string>(const std::string& name)> find_program;
  std::function<Result<>(const std::string& name)> check_script;
};

/// The machine and process we are.
Host this_host();

}  // namespace ddprun::cli
