// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <ddp/process_group.h>
#include <vector>

int main() {
  auto group = ddp::init_process_group();
  std::vector<float> data = {1, 2, 3};
  group.all_reduce(data, ddp::ReduceOp::avg);
  std::printf("rank %d of %d: %g\n", group.rank(), group.size(), data[2]);
  try {
    group.broadcast(data, 7);
  } catch (const ddp::Error& error) {  // crosses from the shared library as itself
    return error.kind() == ddp::ErrorKind::usage ? 0 : 1;
  }
  return 1;
}
