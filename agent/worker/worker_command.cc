// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_command.h"

#include <cstddef>
#include <string_view>

#include "agent/worker/worker_env.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kMacro = "${local_rank}";

/// A `$` before the macro escapes it and is removed, as under torchrun.
void expand(std::string& word, const std::string& local_rank) {
  for (size_t at = 0; (at = word.find(kMacro, at)) != std::string::npos;) {
    const bool escaped = at > 0 && word[at - 1] == '$';
    if (escaped) {
      word.erase(at - 1, 1);
      at += kMacro.size() - 1;
    } else {
      word.replace(at, kMacro.size(), local_rank);
      at += local_rank.size();
    }
  }
}

}  // namespace

std::vector<std::string> worker_command(const JobSpec& job, int local_rank) {
  std::vector<std::string> command = job.command;
  for (size_t i = job.own_arguments; i < command.size(); ++i) {
    expand(command[i], std::to_string(local_rank));
  }
  if (!job.local_rank_flag.empty()) {
    command.insert(command.begin() + static_cast<std::ptrdiff_t>(job.own_arguments),
                   job.local_rank_flag + "=" + std::to_string(visible_local_rank(job, local_rank)));
  }
  return command;
}

}  // namespace ddprun::agent
