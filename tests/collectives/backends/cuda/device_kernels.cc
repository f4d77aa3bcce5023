// SPDX-License-Identifier: Apache-2.0
// Prints libddp's kernels, for CUDA's assembler to check.

#include <cstdio>

#include "collectives/backends/cuda/bitwise.h"

int main() {
  std::printf("%s", ddp::internal::bitwise_kernels().c_str());
}
