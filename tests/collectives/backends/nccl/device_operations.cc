// SPDX-License-Identifier: Apache-2.0
// One rank that makes every call with buffers on a device, over the default backend or the one that
// DDP_TEST_BACKEND names; device_operations few: with few counts and types. Exit code: 0 success, 1
// a wrong result (printed), 10 + kind for a ddp::Error (printed), 77 no GPU (printed).

#include "tests/collectives/backends/cuda/device.h"

using namespace ddp_tests;

namespace {

std::vector<std::size_t> counts_of(std::size_t /*width*/) {
  return {0, 1, 7, 1001};
}

struct Sample {
  std::int32_t label;
  float weight[2];

  bool operator==(const Sample&) const = default;
};

void check_structs(DeviceGroup& group) {
  std::vector<Sample> expected;
  for (int rank = 0; rank < group.size(); ++rank) expected.push_back({rank, {0.5F, 2.0F}});
  std::vector<Sample> all(expected.size());
  const auto own = std::span(expected).subspan(static_cast<std::size_t>(group.rank()), 1);
  group.all_gather(own, all);
  if (all != expected) wrong("structs on a device");
}

void check_bool(DeviceGroup& group) {
  bool flags[] = {true, group.rank() == 0, false};
  group.all_reduce(flags, ReduceOp::min);
  if (!flags[0] || flags[1] != (group.size() == 1) || flags[2]) wrong("bool on a device");
}

/// NCCL combines floats of 8 bits from compute capability 9.0 on; the tests' driver reports 0.
bool has_float8() {
  CUdevice device = 0;
  int major = 0;
  DRIVER(cuCtxGetDevice, &device);
  DRIVER(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  return major == 0 || major >= 9;
}

void check_few(DeviceGroup& group) {
  check_type<float>(group, {0, 1001});
  check_type<ddp::bfloat16>(group, {1001});
  check_type<std::int8_t>(group, {1001});
  if (has_float8()) check_type<ddp::float8_e5m2>(group, {1001});
  Checker<std::complex<float>, DeviceGroup>(group, 1001).without_products();
}

/// An operation that NCCL does not have is refused, and the group stays usable.
void check_further_types(DeviceGroup& group) {
  if (has_float8()) {
    check_type<ddp::float8_e4m3>(group, {1, 1001});
    check_type<ddp::float8_e5m2>(group, {1001});
  }
  for (const std::size_t count : {0, 7, 1001}) {
    Checker<std::complex<float>, DeviceGroup>(group, count).without_products();
  }
  Checker<std::complex<double>, DeviceGroup>(group, 7).without_products();
  std::vector<std::complex<float>> waves(3);
  std::vector<std::int16_t> numbers(3);
  refused([&] { group.all_reduce(waves, ReduceOp::product); });
  refused([&] { group.all_reduce(numbers); });
  check_structs(group);
  check_bool(group);
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
    if (argc > 1) {
      check_few(on_device);
    } else {
      check_all(on_device, counts_of);
      check_further_types(on_device);
    }
    group.barrier();
  });
}
