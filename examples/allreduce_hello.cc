// SPDX-License-Identifier: Apache-2.0
// Every process contributes one number, and all of them get the sum:
//
//     ddprun --nproc_per_node 4 allreduce_hello
//     allreduce_hello 4
//
// The second starts them without a launcher. torchrun --no_python, mpirun and srun work, too.
#include <cstdio>
#include <ddp/process_group.h>
#include <ddp/spawn.h>
#include <vector>

#include "examples/arguments.h"

namespace {

void hello() {
  auto group = ddp::init_process_group();
  std::vector<float> data = {static_cast<float>(group.rank() + 1)};
  group.all_reduce(data);
  std::printf("rank %d of %d: the sum is %g\n", group.rank(), group.size(), data[0]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 1) {
      hello();
    } else {
      const int processes =
          examples::number("processes", argv[1], 1, 1 << 30, "a number, at least 1");
      ddp::spawn(processes, [](int) { hello(); });
    }
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
