// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace ddprun::tests {

/// Returns the contents of the file; the test fails if it is not there.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

}  // namespace ddprun::tests
