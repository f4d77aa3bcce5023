// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <unistd.h>

namespace ddprun {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace ddprun
