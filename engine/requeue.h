// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/requeue_spec.h"

// Decides whether an ended Slurm job runs again. Pure.

namespace ddprun::engine {

/// A job as Slurm describes it.
struct JobState {
  std::string state;   ///< "RUNNING"; "COMPLETING" from the moment when Slurm ends it
  std::string reason;  ///< why Slurm ends it: "TimeLimit"; also "None" if someone cancels it
  bool is_batch = false;
  bool may_requeue = false;  ///< not submitted with --no-requeue
  bool preempted = false;    ///< another job gets its nodes
  int restarts = 0;          ///< more than when this run began: it is in the queue already
  std::optional<std::chrono::sys_seconds> end;
};

/// state_query prints a JobState. requeue_command requeues the job, or prints why it could not. The
/// signals with which Slurm ends the job do not end them. If one prints nothing, it was killed and
/// has done nothing.
std::vector<std::string> state_query(const std::string& job);
std::vector<std::string> requeue_command(const std::string& job);

/// Whether requeue_command succeeded, by its output.
bool has_requeued(std::string_view output);

/// Parses the output of state_query; nullopt: something else.
std::optional<JobState> parse_job_state(std::string_view text);

/// How ddprun ended.
struct JobEnd {
  int code = 0;            ///< its exit code
  bool lost_host = false;  ///< because the connection to a host was lost
  std::chrono::sys_seconds when;
};

struct RequeueDecision {
  bool requeue = false;
  std::string why;  ///< "its time limit was reached"; empty: nothing to report
};

// clang-format off
/// The first row that fits a job that has not succeeded decides:
///
///   Slurm, or somebody by it, has requeued it     | no: it is done
///   Slurm ends it, for its time limit             | requeue
///   Slurm ends it or will, as it is preempted     | requeue
///   Slurm ends it: a node has failed              | requeue
///   Slurm ends it for another reason: cancelled   | no
///   a host is lost                                | requeue
///   the workers ended by the deadline's signal,   | requeue
///     and not before its time                     |
///   else: the program has failed, or was stopped  | no
///
/// No row requeues a job that is not a batch job, may not be requeued, or was so too often already.
// clang-format on
RequeueDecision decide_requeue(const RequeueSpec& spec, const JobEnd& end, const JobState& state);

}  // namespace ddprun::engine
