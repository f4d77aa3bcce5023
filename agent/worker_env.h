// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job_spec.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// The variable that names the file in which a process tells what it died of.
inline constexpr std::string_view kErrorFile = "TORCHELASTIC_ERROR_FILE";

/// The environments of one node's workers in one round: what ddprun inherited, overlaid by what
/// PyTorch's env:// rendezvous and torchrun's users expect to find. Pure.
///
/// Worked out once for the node; a worker adds only its own few variables. `job` must outlive it.
class WorkerEnv {
 public:
  /// `inherited` are "NAME=value" strings. `store` is where the workers' store listens, which is
  /// known only when the round is.
  WorkerEnv(const JobSpec& job, const std::vector<std::string>& inherited,
            const rendezvous::Layout& layout, const rendezvous::Endpoint& store);

  /// The whole environment of the worker with this local rank, each name once. `error_file` is
  /// where it may tell what it died of; empty: nowhere.
  std::vector<std::string> of(int local_rank, const std::string& error_file) const;

  /// Only the part ddprun decides, in the order a reader looks for it.
  std::vector<std::string> decided(int local_rank, const std::string& error_file) const;

  /// Whether OMP_NUM_THREADS=1 is ours: several workers, and the user had not set it.
  bool limits_omp_threads() const { return limits_omp_threads_; }

 private:
  void decide_shared(const rendezvous::Layout& layout, const rendezvous::Endpoint& store);
  void append_own(int local_rank, std::vector<std::string>& variables) const;

  const JobSpec& job_;
  int first_rank_;
  bool limits_omp_threads_ = false;
  std::vector<std::string> inherited_;  // without the names that are decided here
  std::vector<std::string> shared_;     // decided, the same for every worker of the node
};

/// LOCAL_RANK as the worker with this local rank sees it.
int visible_local_rank(const JobSpec& job, int local_rank);

/// The GPUs that the worker with this local rank is to use. Where it sees all, that is the one with
/// its number, `cuda:LOCAL_RANK`, and where there are fewer GPUs than workers they take turns.
std::vector<std::string> devices_of(const JobSpec& job, int local_rank);

/// The part of `devices` that belongs to the worker with this local rank when each gets a block of
/// its own: consecutive, every device used, sizes differing by at most one.
std::vector<std::string> device_block(const std::vector<std::string>& devices, int local_rank,
                                      int local_size);

/// The value of `name` in a list of "NAME=value" strings; nullptr when it is not there.
const char* find_variable(const std::vector<std::string>& environment, std::string_view name);

}  // namespace ddprun::agent
