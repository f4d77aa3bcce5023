// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/pages.h"

// CMakeLists.txt defines DDPRUN_COMMIT, DDPRUN_BUILD_TYPE and DDPRUN_PARTS only for this file.

namespace ddprun::cli {

std::string version_text() {
  return "ddprun " DDPRUN_VERSION
         "\n"
         "commit " DDPRUN_COMMIT ", " DDPRUN_BUILD_TYPE "\n" DDPRUN_PARTS "\n";
}

}  // namespace ddprun::cli
