// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_failure.h"

namespace ddprun::agent {
namespace {

launcher::ExitStatus exit_with(int code) {
  return launcher::ExitStatus((code & 0xff) << 8);  // as wait(2) has it
}

}  // namespace

std::optional<MpiFailure> mpi_failure(const MpiRank& rank, launcher::ExitStatus status,
                                      int world_size) {
  if (rank.abort_code) {
    const int code = *rank.abort_code & 0xff;
    return MpiFailure{exit_with(code == 0 ? 1 : code),
                      "called MPI_Abort(" + std::to_string(*rank.abort_code) + ")"};
  }
  const bool is_open = rank.called_init && !rank.finalized && world_size > 1;
  if (!is_open || !status.success()) return std::nullopt;
  return MpiFailure{exit_with(1), "ended without MPI_Finalize, with exit code 0"};
}

}  // namespace ddprun::agent
