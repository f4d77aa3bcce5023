// SPDX-License-Identifier: Apache-2.0
// One rank that makes every call there is with buffers on a device, over the usual backend or what
// DDP_TEST_BACKEND names; device_operations few: with few counts and types. Exit code: 0 all right,
// 1 a wrong result (printed), 10 + kind for a ddp::Error (printed), 77 no GPU (printed).

#include "tests/collectives/backends/cuda/device.h"

using namespace ddp_tests;

namespace {

std::vector<std::size_t> counts_of(std::size_t /*width*/) {
  return {0, 1, 7, 1001};
}

void check_few(DeviceGroup& group) {
  check_type<float>(group, {0, 1001});
  check_type<ddp::bfloat16>(group, {1001});
  check_type<std::int8_t>(group, {1001});
}

}  // namespace

int main(int argc, char** /*argv*/) {
  const int devices = count_devices();
  if (devices == 0) {
    std::printf("no GPU here\n");
    return 77;
  }
  return ddprun::tests::exit_code_of([&] {
    const std::string backend = ddprun::tests::backend_of_test();
    auto group =
        ddp::init_process_group({.backend = backend, .timeout = std::chrono::seconds(120)});
    if (group.backend() != (backend.empty() ? "nccl" : backend))
      wrong("backend " + group.backend());
    use_device(group.rank() % devices);
    DeviceGroup on_device(group);
    argc > 1 ? check_few(on_device) : check_all(on_device, counts_of);
    group.barrier();
  });
}
