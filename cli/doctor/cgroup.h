// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddprun::doctor {

/// The limits of this process's control group and of those above it, in either version.
struct ControlGroup {
  std::int64_t memory = -1;  ///< bytes; -1: no limit
  double cpus = -1;          ///< -1: no limit
};

/// Files are under `root`.
ControlGroup read_control_group(const std::string& root);

}  // namespace ddprun::doctor
