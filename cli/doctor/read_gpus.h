// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/doctor/facts.h"

namespace ddprun::doctor {

/// Reads the health of each GPU, as NVML reports it. Does nothing if there is no NVIDIA driver, by
/// the files under `root`, or no NVML. Takes tens of milliseconds.
void read_gpus(Facts& facts, const std::string& root = "",
               const std::string& nvml_library = "libnvidia-ml.so.1");

}  // namespace ddprun::doctor
