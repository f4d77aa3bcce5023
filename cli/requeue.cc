// SPDX-License-Identifier: Apache-2.0
#include "cli/requeue.h"

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/requeue.h"
#include "launcher/process/command_output.h"

namespace ddprun::cli {
namespace {

/// The scheduler's SIGKILL follows 30 s after its SIGTERM, and the workers may take 25 s of these.
constexpr std::chrono::seconds kSchedulerLimit{10};

/// Repeats a command that printed nothing: a signal may have killed it at once.
Result<std::string> answer_of(const std::vector<std::string>& command) {
  constexpr int kMostAnswers = 3;
  Result<std::string> answer{std::string()};
  for (int attempt = 0; attempt < kMostAnswers && answer && answer->empty(); ++attempt) {
    answer = launcher::output_of(command, kSchedulerLimit);
  }
  return answer;
}

/// Errors: system, with Slurm's words.
Result<> requeue(const RequeueSpec& spec) {
  const Result<std::string> said = answer_of(engine::requeue_command(spec.id));
  if (!said) return said.error();
  if (engine::has_requeued(*said)) return {};
  if (said->empty()) return Error{Errc::system, "scontrol requeue " + spec.id + " does not answer"};
  return Error{Errc::system, printable(cut(said->substr(0, said->find('\n')), 300))};
}

Result<engine::JobState> ask_state(const RequeueSpec& spec) {
  const Result<std::string> text = answer_of(engine::state_query(spec.id));
  if (!text) return text.error();
  const auto state = engine::parse_job_state(*text);
  if (state) return *state;
  return Error{Errc::system, "scontrol show job " + spec.id + " prints nothing about it"};
}

}  // namespace

void requeue_if_due(const std::optional<RequeueSpec>& spec, int code, bool lost_host) {
  using namespace std::chrono;
  if (!spec || code == 0) return;
  const Result<engine::JobState> state = ask_state(*spec);
  if (!state) return log::error(spec->name + " is not requeued: " + state.error().message);
  const engine::JobEnd end = {code, lost_host, time_point_cast<seconds>(system_clock::now())};
  const engine::RequeueDecision verdict = engine::decide_requeue(*spec, end, *state);
  if (!verdict.requeue) {
    if (!verdict.why.empty()) log::info(spec->name + " is not requeued: " + verdict.why);
  } else if (const Result<> done = requeue(*spec); !done) {
    log::error(spec->name + " is not requeued: " + done.error().message);
  } else {
    log::info(spec->name + " is requeued, time " + std::to_string(spec->so_far + 1) + " of " +
              std::to_string(spec->most) + ": " + verdict.why);
  }
}

}  // namespace ddprun::cli
