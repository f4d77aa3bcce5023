// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include "base/fd.h"

namespace ddprun::tests {

/// Duplicates the descriptor for another rank.
inline Fd again(const Fd& memory) {
  return Fd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));
}

}  // namespace ddprun::tests
