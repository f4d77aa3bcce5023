// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_library.h"

namespace ddprun::bench {

std::unique_ptr<Library> make_gloo(ddp::ProcessGroup& /*group*/) {
  throw ddp::Error(ddp::ErrorKind::usage,
                   "without mpirun it needs Gloo, which CMake did not find when it was built");
}

}  // namespace ddprun::bench
