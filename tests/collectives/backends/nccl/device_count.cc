// SPDX-License-Identifier: Apache-2.0
// Prints the number of GPUs. Exit code: 0, or 77 if there are none.

#include "tests/collectives/backends/cuda/device.h"

int main() {
  const int count = ddp_tests::count_devices();
  std::printf("%d GPUs here\n", count);
  return count == 0 ? 77 : 0;
}
