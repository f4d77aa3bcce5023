// SPDX-License-Identifier: Apache-2.0
// Prints libddp's kernels, for CUDA's assembler to check.

#include <cstdio>

#include "collectives/nccl_bitwise.h"

int main() {
  std::printf("%s", ddp::internal::bitwise_kernels().c_str());
}
