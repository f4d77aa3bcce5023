// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include "tests/collectives/ranks.h"

namespace ddprun::tests {

/// Whether the tests use this machine's GPUs and its NCCL, and not those in fake_gpu/:
/// DDP_REAL_GPU=1.
inline bool is_real() {
  return std::getenv("DDP_REAL_GPU") != nullptr;
}

/// The environment of a rank on a GPU.
inline Variables on_gpu(const Variables& more = {}) {
  Variables all = more;
  if (!is_real()) all.emplace("LD_LIBRARY_PATH", FAKE_GPU);
  return all;
}

/// Whether there are as many GPUs.
inline bool are_enough(int ranks) {
  static const int gpus =
      is_real() ? std::atoi(Rank({DDPRUN_BIN "/device_count"}, {}).wait().output.c_str()) : 4;
  return ranks <= gpus;
}

}  // namespace ddprun::tests
