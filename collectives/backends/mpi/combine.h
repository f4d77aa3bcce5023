// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "collectives/backends/backend.h"
#include "collectives/backends/mpi/library.h"

namespace ddp::internal {

/// Reductions with MPI. MPI lacks floats of 8 and 16 bits: they are combined in float32 and rounded
/// at the end. It also lacks an average: that is a sum that is divided.
class MpiCombine {
 public:
  void run(MpiGroup& group, const Task& task, int rank, int size);

 private:
  void run_wide(MpiGroup& group, const Task& task, int size);

  std::vector<float> wide_in_;
  std::vector<float> wide_out_;
};

}  // namespace ddp::internal
