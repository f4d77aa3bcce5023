// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/host_calls.h"

#include <string>

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"
#include "ddp/error.h"

namespace ddp::internal {

void check_host_call(const char* operation, CUstream_st* stream) {
  count_gpus();
  if (!is_capturing(stream)) return;
  throw Error(ErrorKind::usage, std::string("ddp: ") + operation +
                                    ": backend mpi moves data from the host, so that its calls "
                                    "cannot be captured into a graph: use backend nccl");
}

void copy_in_stream(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  const CudaDevice device(choose_device());
  const OnDevice here(device);
  check_cuda(cuda().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                  reinterpret_cast<CUdeviceptr>(from), bytes, stream),
             "cuMemcpyAsync");
}

}  // namespace ddp::internal
