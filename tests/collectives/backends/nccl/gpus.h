// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include "tests/collectives/ranks.h"
#include "tests/paths.h"

namespace ddprun::tests {

/// Whether the tests use this machine's GPUs and NCCL (DDP_REAL_GPU=1), not those in fake_gpu/.
inline bool is_real() {
  return std::getenv("DDP_REAL_GPU") != nullptr;
}

/// The folder of the fake driver and NCCL, which work in host memory.
inline std::string fake_gpu_folder() {
  return build_path("tests/collectives/fake_gpu");
}

/// The environment of a rank on a GPU.
inline Variables on_gpu(const Variables& more = {}) {
  Variables all = more;
  if (!is_real()) all.emplace("LD_LIBRARY_PATH", fake_gpu_folder());
  return all;
}

/// Whether there are so many GPUs.
inline bool are_enough(int ranks) {
  static const int gpus =
      is_real() ? std::atoi(Rank({program_path("device_count")}, {}).wait().output.c_str()) : 4;
  return ranks <= gpus;
}

}  // namespace ddprun::tests
