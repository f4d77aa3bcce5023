// SPDX-License-Identifier: Apache-2.0
#include "bench/collectives_library.h"

namespace ddprun::bench {

std::unique_ptr<Library> make_mpi() {
  throw ddp::Error(ddp::ErrorKind::usage,
                   "under mpirun it needs MPI, which CMake did not find when it was built");
}

}  // namespace ddprun::bench
