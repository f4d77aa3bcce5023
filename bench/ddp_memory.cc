// SPDX-License-Identifier: Apache-2.0
#include "bench/ddp_memory.h"

#include "ddp/local_devices.h"
#include "tests/collectives/backends/cuda/device.h"

namespace ddprun::bench {

Memory make_device_memory() {
  ddp_tests::use_device(ddp::local_device());
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  const auto allocate = [stream](std::size_t bytes) {
    const auto memory = std::make_shared<ddp_tests::DeviceMemory>(bytes, stream);
    return std::shared_ptr<void>(memory, memory->data());
  };
  const auto settle = [stream] { DRIVER(cuStreamSynchronize, stream); };
  return {allocate, settle, true, stream};
}

}  // namespace ddprun::bench
