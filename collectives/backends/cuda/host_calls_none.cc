// SPDX-License-Identifier: Apache-2.0
// Replaces host_calls.cc in a build without the headers of NCCL or CUDA.
#include "collectives/backends/cuda/host_calls.h"
#include "ddp/error.h"

namespace ddp::internal {

void check_host_call(const char* /*operation*/, CUstream_st* /*stream*/) {
  throw Error(ErrorKind::usage,
              "ddp: this libddp was built without buffers on a device; build it where nccl.h and "
              "cuda.h are, with -DDDPRUN_NCCL=ON");
}

void copy_in_stream(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/,
                    CUstream_st* /*stream*/) {}

}  // namespace ddp::internal
