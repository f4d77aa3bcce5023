// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

/// close_range(2) for a C library that is older than the call. A kernel without it says ENOSYS.
inline int close_range(unsigned int first, unsigned int last, int flags) {
  return static_cast<int>(syscall(SYS_close_range, first, last, flags));
}
