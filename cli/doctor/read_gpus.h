// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/doctor/facts.h"

namespace ddprun::doctor {

/// The health of each GPU as NVML reports it. Nothing where there is no driver of NVIDIA's, by the
/// files under `root`, or no NVML. Tens of milliseconds.
void read_gpus(Facts& facts, const std::string& root = "",
               const std::string& nvml_library = "libnvidia-ml.so.1");

}  // namespace ddprun::doctor
