// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddp::internal {

/// What a launcher tells a process by environment variables. Each function throws ddp::Error of
/// kind usage that names the variable, its value and what would be right.

/// Which of how many.
struct RankInfo {
  int rank = 0;
  int size = 1;
};

/// The first of these pairs of which the first variable is set:
///   RANK, WORLD_SIZE                           ddprun, torchrun
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE Open MPI's mpirun (ompi's environment-var.rst)
///   PMI_RANK, PMI_SIZE                         hydra: MPICH's and Intel's mpiexec
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS         srun (srun.1); without the latter SLURM_NTASKS
RankInfo read_place();

/// Where rank 0's store is, or the launcher's.
struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  bool agent = false;  ///< the launcher serves it; else rank 0 does
};

/// MASTER_ADDR and MASTER_PORT, and TORCHELASTIC_USE_AGENT_STORE.
///
/// Other launchers than ddprun and torchrun do not set them. Without MASTER_ADDR it is this host
/// when the launcher says that all processes run here, and the first node of SLURM_STEP_NODELIST
/// under srun. Without MASTER_PORT it is 29500, PyTorch's, if MASTER_ADDR is set; else one from
/// 20000 to 32767 (below Linux's ephemeral ones), made of the name of the job: PMIX_NAMESPACE,
/// SLURM_JOB_ID and SLURM_STEP_ID, or the id of the parent process, which is hydra.
StoreAddress read_store_address();

/// The first host of a list as Slurm writes it: "n[08-11,20],m1" is n08.
std::string first_host(const std::string& node_list);

}  // namespace ddp::internal
