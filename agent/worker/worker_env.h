// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job/job_spec.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::agent {

/// The variable that names the error file of a process, see agent/job/error_file.h.
inline constexpr std::string_view kErrorFile = "TORCHELASTIC_ERROR_FILE";

/// The environments of one node's workers in one round: what ddprun inherited, overlaid by the
/// variables that PyTorch's env:// rendezvous and torchrun's users expect. Pure.
///
/// Most of it is computed once for the node; a worker adds a few variables of its own. `job` must
/// outlive it.
class WorkerEnv {
 public:
  /// `inherited` are "NAME=value" strings. `store` is where the workers' store listens.
  WorkerEnv(const JobSpec& job, const std::vector<std::string>& inherited,
            const rendezvous::Layout& layout, const rendezvous::Endpoint& store);

  /// The variables that are the same for all workers. Call it last.
  std::vector<std::string> common() &&;

  /// The other variables of the worker with this local rank: no name is in both lists.
  /// `error_file` is a path; empty: the worker has none.
  std::vector<std::string> own(int local_rank, const std::string& error_file) const;

  /// Only the variables that ddprun sets, in the order in which users look for them.
  std::vector<std::string> decided(int local_rank, const std::string& error_file) const;

  /// Whether ddprun sets OMP_NUM_THREADS=1: there are several workers, and the user had not set it.
  bool limits_omp_threads() const { return limits_omp_threads_; }

 private:
  void decide_shared(const rendezvous::Layout& layout, const rendezvous::Endpoint& store);
  void decide_mpi(const rendezvous::Layout& layout);
  void append_own(int local_rank, std::vector<std::string>& variables) const;

  const JobSpec& job_;
  int first_rank_;
  int first_role_rank_;
  bool limits_omp_threads_ = false;
  std::vector<std::string> inherited_;  // without the names that are decided here
  std::vector<std::string> shared_;     // decided, the same for every worker of the node
};

/// Whether `variable`, "NAME=value", says what the place of a process in a job of MPI is. The
/// user's settings of MPI do not.
bool is_of_mpi_job(std::string_view variable);

/// LOCAL_RANK as the worker with this local rank sees it.
int visible_local_rank(const JobSpec& job, int local_rank);

/// Sets `variables`, which are "NAME=value" strings, in an environment.
void set_variables(std::vector<std::string>& environment,
                   const std::vector<std::string>& variables);

/// The value of `name` in a list of "NAME=value" strings; nullptr: it is not set.
const char* find_variable(const std::vector<std::string>& environment, std::string_view name);

}  // namespace ddprun::agent
