// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/template_command.h"

#include <cstddef>

#include "agent/worker/worker_env.h"

namespace ddprun::agent {
namespace {

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
