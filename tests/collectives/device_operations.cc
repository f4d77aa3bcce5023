// SPDX-License-Identifier: Apache-2.0
// One rank that makes every call there is with buffers on a device. Exit code: 0 all right, 1 a
// wrong result (told), 10 + kind for a ddp::Error (told), 77 no GPU (told).

#include "tests/collectives/device.h"

using namespace ddp_tests;

namespace {

std::vector<std::size_t> counts_of(std::size_t /*width*/) {
  return {0, 1, 7, 1001};
}

}  // namespace

int main() {
  const int devices = count_devices();
  if (devices == 0) {
    std::printf("no GPU here\n");
    return 77;
  }
  return ddprun::tests::exit_code_of([&] {
    auto group = ddp::init_process_group({.timeout = std::chrono::seconds(120)});
    if (group.backend() != "nccl") wrong("the backend is " + group.backend());
    use_device(std::atoi(std::getenv("RANK")) % devices);
    DeviceGroup on_device(group);
    check_all(on_device, counts_of);
    group.barrier();
  });
}
