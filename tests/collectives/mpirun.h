// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/collectives/ranks.h"

namespace ddprun::tests {

/// What the ranks of a job over mpi find in their environment. They see no GPU but those of a
/// driver of our own.
inline Variables over_mpi() {
  // Open MPI unloads its plug-ins before the process ends: nothing tells their leaks from ours.
  const char* const sanitizer = std::getenv("ASAN_OPTIONS");
  const std::string no_leaks = ":detect_leaks=0";
  return {{"DDP_TEST_BACKEND", "mpi"},
          {"CUDA_VISIBLE_DEVICES", ""},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},  // these two are for Open MPI 4
          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
          {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},  // and these for 5
          {"PRTE_MCA_hwloc_default_binding_policy", "none"},
          {"ASAN_OPTIONS", sanitizer == nullptr ? no_leaks : sanitizer + no_leaks}};
}

/// Runs `program` as a job of so many ranks over mpi, and gives the job as its launcher ends it.
/// Ends the test as a skipped one where there is no mpirun.
inline Ended under_mpirun(int size, const std::vector<std::string>& program,
                          const Variables& more = {}) {
  constexpr int kSkipped = 77;
  if (::access(MPIRUN, X_OK) != 0) {
    std::printf("skipped: there is no mpirun here, at " MPIRUN "\n");
    std::exit(kSkipped);
  }
  std::vector<std::string> command = {MPIRUN, "-n", std::to_string(size)};
  command.insert(command.end(), program.begin(), program.end());
  Variables variables = more;
  variables.merge(over_mpi());
  return Rank(command, variables).wait();
}

}  // namespace ddprun::tests
