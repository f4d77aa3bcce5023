// SPDX-License-Identifier: Apache-2.0
#include "agent/job/report_hints.h"

#include <array>
#include <csignal>
#include <string_view>

#include "agent/job/outcome.h"
#include "base/text.h"

namespace ddprun::agent {
namespace {

/// Last words of programs, and what they mean under ddprun.
struct Hint {
  std::string_view words;
  std::string_view text;
};
constexpr auto kHints = std::to_array<Hint>({
    {"arguments are required: --local-rank",
     "the program takes its local rank as an argument: --pass_local_rank dash, or ddprun launch"},
    {"arguments are required: --local_rank",
     "the program takes its local rank as an argument: --pass_local_rank underscore"},
    {"unrecognized arguments: --local-rank=",
     "the program takes no local rank as an argument: leave out --pass_local_rank and launch, or "
     "give --use_env"},
    {"unrecognized arguments: --local_rank=",
     "the program takes no local rank as an argument: leave out --pass_local_rank"},
    {"Failed to add port to server",
     "a server of the program's own, such as JAX's coordinator, needs MASTER_PORT: --store worker "
     "leaves it to rank 0"},
    {"Address already in use",
     "ddprun's store has MASTER_PORT; if the program needs it for a server of its own, --store "
     "worker leaves it to rank 0"},
});

}  // namespace

std::string report_hint(const rendezvous::Failure& failure) {
  for (const Hint& hint : kHints) {
    const bool said = failure.stderr_tail.find(hint.words) != std::string::npos;
    if (said) return std::string(hint.text);
  }
  if (exit_status(failure).signal() != SIGKILL || !failure.cause.empty()) return "";
  return "ddprun did not send this signal; if the kernel did (out of memory), dmesg on " +
         cut(printable(failure.host), 240) + " shows it";
}

std::string missing_module_text(const rendezvous::Failure& failure, const JobSpec& job) {
  constexpr std::string_view kWords = "ModuleNotFoundError: No module named '";
  const bool is_python = job.own_arguments > 1;  // ddprun put python's words before the script
  std::string_view last = failure.exception.empty() ? failure.stderr_tail : failure.exception;
  while (last.ends_with('\n')) last.remove_suffix(1);
  last.remove_prefix(last.rfind('\n') + 1);  // npos + 1 is 0
  if (!is_python || !last.starts_with(kWords)) return "";
  last.remove_prefix(kWords.size());
  return job.program + " has no module " + std::string(last.substr(0, last.find('\''))) +
         " (PYTHON_EXEC=FILE names another Python)";
}

}  // namespace ddprun::agent
