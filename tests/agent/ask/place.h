// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/catch.h"

namespace ddprun::tests {

/// A folder that is removed after the test.
class Place {
 public:
  Place() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Place() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Place(const Place&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/ddprun_test_XXXXXX";
};

}  // namespace ddprun::tests
