// SPDX-License-Identifier: Apache-2.0
// The only object of the tests that contains the folders' names. All others are the same in every
// clone, so that a compiler cache has them.
#include "tests/paths.h"

namespace ddprun::tests {

std::string source_path(const std::string& name) {
  return DDPRUN_SOURCE_FOLDER "/" + name;
}

std::string build_path(const std::string& name) {
  return DDPRUN_BUILD_FOLDER "/" + name;
}

std::string program_path(const std::string& name) {
  return build_path("bin/" + name);
}

std::string fake_nvml_path() {
  return build_path("tests/libfake_nvml.so");
}

}  // namespace ddprun::tests
