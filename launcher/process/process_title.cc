// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/process_title.h"

#include <algorithm>
#include <cstring>
#include <sys/prctl.h>

namespace ddprun::launcher {

void set_process_title(int argc, char** argv, const std::string& name,
                       const std::string& command_line) {
  prctl(PR_SET_NAME, name.c_str());
  if (argc < 1) return;
  // The kernel has put the words one after the other.
  char* const begin = argv[0];
  const char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]);
  const auto size = static_cast<size_t>(end - begin);
  const size_t used = std::min(size, command_line.size());
  std::copy_n(command_line.begin(), used, begin);
  std::fill(begin + used, begin + size, '\0');
}

}  // namespace ddprun::launcher
