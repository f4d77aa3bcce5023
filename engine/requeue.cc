// SPDX-License-Identifier: Apache-2.0
#include "engine/requeue.h"

#include <algorithm>
#include <cstdint>

#include "base/number.h"

namespace ddprun::engine {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kRequeued = "requeued";

/// A shell's line, with the job as $1. When Slurm ends a job, its signals reach every process of
/// it, also a command that asks Slurm about that job: it would print nothing, like a successful
/// one.
Words undisturbed(const std::string& line, const std::string& job) {
  return {"sh", "-c", "trap '' HUP INT TERM; " + line, "sh", job};
}

/// The value of "NAME=value" among words; empty: not found. `text` begins with a word.
std::string value_of(std::string_view text, std::string_view name) {
  const std::string start = std::string(name) + "=";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (word.starts_with(start)) return std::string(word.substr(start.size()));
    at = end + 1;
  }
  return "";
}

/// nullopt: "None", "Unknown".
std::optional<std::chrono::sys_seconds> time_of(const std::string& text) {
  constexpr std::int64_t kLatest = 9'000'000'000;  // the year 2255
  const auto seconds = whole_number<std::int64_t>(text, 0, kLatest);
  if (!seconds) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::seconds(*seconds));
}

/// Whether the workers ended by the deadline's signal, and not before its time.
bool has_obeyed(const RequeueSpec& spec, const JobEnd& end, const JobState& state) {
  return spec.deadline_signal != 0 && end.code == 128 + spec.deadline_signal && state.end &&
         *state.end - end.when <= spec.notice;
}

/// Why the job should run again; empty: it should not, for `not_why`.
std::string cause(const RequeueSpec& spec, const JobEnd& end, const JobState& state,
                  std::string& not_why) {
  if (state.state == "TIMEOUT" || state.reason == "TimeLimit") return "its time limit was reached";
  if (state.state == "PREEMPTED" || state.preempted) return "it was preempted";
  if (state.state == "NODE_FAIL" || state.reason == "NodeDown") return "a node has failed";
  not_why = "it was cancelled";
  if (state.state != "RUNNING") return "";
  if (end.lost_host) return "a host was lost";
  if (has_obeyed(spec, end, state)) return "its workers ended because of its time limit";
  not_why = "neither its time limit nor a preemption nor a lost host ended it";
  return "";
}

/// Why the job cannot run again; empty: it can.
std::string obstacle(const RequeueSpec& spec, const JobState& state) {
  if (!state.is_batch) return "only a batch job can be";
  if (!state.may_requeue) return "it was submitted with --no-requeue, or the site has JobRequeue=0";
  if (spec.so_far < spec.most) return "";
  return "it was " + std::to_string(spec.so_far) + " times, and --requeue allows " +
         std::to_string(spec.most);
}

}  // namespace

Words state_query(const std::string& job) {
  Words words = undisturbed("exec scontrol --oneliner show job \"$1\"", job);
  words.insert(words.begin(), "SLURM_TIME_FORMAT=%s");
  return words;
}

Words requeue_command(const std::string& job) {
  return undisturbed("said=$(exec scontrol requeue \"$1\" 2>&1) && echo " + std::string(kRequeued) +
                         " || printf %s \"$said\"",
                     job);
}

bool has_requeued(std::string_view output) {
  return output == std::string(kRequeued) + "\n";
}

std::optional<JobState> parse_job_state(std::string_view text) {
  JobState state;
  state.state = value_of(text, "JobState");
  if (state.state.empty()) return std::nullopt;
  state.reason = value_of(text, "Reason");
  state.is_batch = value_of(text, "BatchFlag") == "1";
  state.may_requeue = value_of(text, "Requeue") == "1";
  state.preempted = time_of(value_of(text, "PreemptTime")).has_value();
  state.restarts = whole_number(value_of(text, "Restarts"), 0).value_or(0);
  state.end = time_of(value_of(text, "EndTime"));
  return state;
}

RequeueDecision decide_requeue(const RequeueSpec& spec, const JobEnd& end, const JobState& state) {
  if (end.code == 0) return {};
  if (state.restarts > spec.so_far) return {false, "Slurm has put it into the queue already"};
  std::string not_why;
  const std::string why = cause(spec, end, state, not_why);
  if (why.empty()) return {false, not_why};
  const std::string against = obstacle(spec, state);
  return against.empty() ? RequeueDecision{true, why} : RequeueDecision{false, against};
}

}  // namespace ddprun::engine
