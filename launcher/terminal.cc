// SPDX-License-Identifier: Apache-2.0
#include "launcher/terminal.h"

#include <unistd.h>

namespace ddprun::launcher {

bool is_terminal_of_others(int fd) {
  const pid_t foreground = tcgetpgrp(fd);  // -1: not a terminal, or one of another session
  return foreground > 0 && foreground != getpgid(getppid());
}

}  // namespace ddprun::launcher
