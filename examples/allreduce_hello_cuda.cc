// SPDX-License-Identifier: Apache-2.0
// Every process contributes one number on its GPU, and all of them get the sum:
//
//     ddprun --nproc_per_node gpu allreduce_hello_cuda
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <ddp/local_devices.h>
#include <ddp/process_group.h>

namespace {

void check(cudaError_t result) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(result));
  std::exit(1);
}

void hello() {
  auto group = ddp::init_process_group({.backend = "nccl"});
  check(cudaSetDevice(ddp::local_device()));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  float* on_device = nullptr;
  check(cudaMalloc(&on_device, sizeof(float)));

  auto number = static_cast<float>(group.rank() + 1);
  check(cudaMemcpyAsync(on_device, &number, sizeof(float), cudaMemcpyHostToDevice, stream));
  group.all_reduce(ddp::DeviceSpan<float>{on_device, 1, stream});
  check(cudaMemcpyAsync(&number, on_device, sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  std::printf("rank %d of %d: the sum is %g\n", group.rank(), group.size(), number);

  check(cudaFree(on_device));
  check(cudaStreamDestroy(stream));
}

}  // namespace

int main() {
  try {
    hello();
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
