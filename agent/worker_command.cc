// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_command.h"

#include <cstddef>

namespace ddprun::agent {

std::vector<std::string> worker_command(const JobSpec& job, int local_rank) {
  std::vector<std::string> command = job.command;
  if (!job.local_rank_flag.empty()) {
    command.insert(command.begin() + static_cast<std::ptrdiff_t>(job.own_arguments),
                   job.local_rank_flag + "=" + std::to_string(local_rank));
  }
  return command;
}

}  // namespace ddprun::agent
