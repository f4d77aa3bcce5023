// SPDX-License-Identifier: Apache-2.0
#include "bench/ddp_memory.h"
#include "ddp/error.h"

namespace ddprun::bench {

Memory make_device_memory() {
  throw ddp::Error(ddp::ErrorKind::usage,
                   "over nccl it needs cuda.h, which CMake did not find when it was built");
}

}  // namespace ddprun::bench
