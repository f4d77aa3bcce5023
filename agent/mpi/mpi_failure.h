// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/process/exit_status.h"

namespace ddprun::agent {

/// The calls of MPI that a rank has made.
struct MpiRank {
  bool called_init = false;
  bool finalized = false;
  std::optional<int> abort_code = {};
};

/// How a rank of MPI has failed.
struct MpiFailure {
  launcher::ExitStatus status;
  std::string cause;
};

/// Whether a rank of a job with several has failed, as MPI sees it: it called MPI_Abort, or has
/// ended with exit code 0 and without MPI_Finalize, for which the others would wait. nullopt: MPI
/// knows no more than `status`. Pure.
std::optional<MpiFailure> mpi_failure(const MpiRank& rank, launcher::ExitStatus status,
                                      int world_size);

}  // namespace ddprun::agent
