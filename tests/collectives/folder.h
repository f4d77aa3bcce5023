// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ddprun::tests {

/// A temporary folder that the destructor removes.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "ddp-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path path;
};

}  // namespace ddprun::tests
