// SPDX-License-Identifier: Apache-2.0
// Tells how many GPUs there are. Exit code: 0, or 77 for none.

#include "tests/collectives/backends/cuda/device.h"

int main() {
  const int count = ddp_tests::count_devices();
  std::printf("%d GPUs here\n", count);
  return count == 0 ? 77 : 0;
}
