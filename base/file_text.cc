// SPDX-License-Identifier: Apache-2.0
#include "base/file_text.h"

#include <fstream>
#include <iterator>

namespace ddprun {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace ddprun
