// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddp::internal {

/// The environment variables by which launchers describe a job to its processes. Each function
/// throws ddp::Error of kind usage that names the variable, its value and the values allowed.

struct RankInfo {
  int rank = 0;
  int size = 1;
};

/// Reads the first of these pairs whose first variable is set:
///   RANK, WORLD_SIZE                           ddprun, torchrun
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE Open MPI's mpirun (ompi's environment-var.rst)
///   PMI_RANK, PMI_SIZE                         hydra: MPICH's and Intel's mpiexec
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS         srun (srun.1); without the latter SLURM_NTASKS
RankInfo read_rank_info();

/// The address of the job's store.
struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  bool agent = false;  ///< served by the launcher; else rank 0 has to serve it
  int restarts = 0;    ///< of the ranks; the launcher's store may have outlived them
};

/// Reads MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE and TORCHELASTIC_RESTART_COUNT.
///
/// Launchers other than ddprun and torchrun do not set them. Without MASTER_ADDR, the host is this
/// one if the launcher says that all processes run here, and the first node of SLURM_STEP_NODELIST
/// under srun. Without MASTER_PORT, the port is PyTorch's 29500 if MASTER_ADDR is set, else one
/// from 20000 to 32767 (below Linux's ephemeral ports) that is a hash of the job's id:
/// PMIX_NAMESPACE, SLURM_JOB_ID and SLURM_STEP_ID, or the id of the parent process, which is hydra.
StoreAddress read_store_address();

/// Returns the first host of a list in Slurm's notation: n08 of "n[08-11,20],m1".
std::string first_host(const std::string& node_list);

}  // namespace ddp::internal
