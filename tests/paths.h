// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::tests {

/// Absolute path of a file of this project: source_path("docs/events.md").
std::string source_path(const std::string& name);

/// Absolute path of a built file: build_path("lib/libddp.so").
std::string build_path(const std::string& name);

/// Absolute path of a built program.
std::string program_path(const std::string& name);

/// Absolute path of the NVML that FAKE_NVML in the environment describes.
std::string fake_nvml_path();

}  // namespace ddprun::tests
