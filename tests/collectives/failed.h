// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/error.h"

namespace ddprun::tests {

/// The exit code of a test program whose call failed with this kind.
constexpr int failed(ddp::ErrorKind kind) {
  return 10 + static_cast<int>(kind);
}

}  // namespace ddprun::tests
