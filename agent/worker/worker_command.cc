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

constexpr std::size_t kAfterUnbuffered = 2;  // python -u

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

/// libgomp counts threads, and OpenBLAS starts them, when they are loaded.
std::vector<std::string> environment_of(const JobSpec& job,
                                        const std::vector<std::string>& inherited) {
  std::vector<std::string> variables = {"OPENBLAS_NUM_THREADS=1"};
  for (const std::string& each : inherited) {
    if (!each.starts_with("OPENBLAS_NUM_THREADS=")) variables.push_back(each);
  }
  const auto set_unless_given = [&](const std::string& name) {
    if (find_variable(inherited, name) == nullptr) variables.push_back(name + "=1");
  };
  if (job.local_size > 1) set_unless_given("OMP_NUM_THREADS");  // as WorkerEnv
  set_unless_given("PYTORCH_NVML_BASED_CUDA_CHECK");
  if (job.hang_timeout.count() > 0) set_unless_given("PYTHONFAULTHANDLER");  // as NodeWorkers
  return variables;
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

launcher::Command template_command(const JobSpec& job, const std::vector<std::string>& inherited) {
  launcher::Command command;
  command.program = job.program;
  command.arguments = {job.command.front(), "-u", "-c", std::string(kTemplateProgram),
                       joined(job.preload, ",")};
  const auto begin = job.command.begin();
  command.arguments.insert(command.arguments.end(), begin + kAfterUnbuffered,
                           begin + static_cast<std::ptrdiff_t>(job.own_arguments));
  command.environment = environment_of(job, inherited);
  return command;
}

std::string preloaded_text(const JobSpec& job) {
  return joined(job.preload, ", ");
}

}  // namespace ddprun::agent
