// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/requeue_spec.h"

// Whether a job of Slurm that has ended is to run once more. Pure.

namespace ddprun::engine {

/// A job as Slurm describes it.
struct JobState {
  std::string state;   ///< "RUNNING"; "COMPLETING" from the moment on at which Slurm ends it
  std::string reason;  ///< why it ends it: "TimeLimit"; "None" also if someone cancels it
  bool is_batch = false;
  bool may_requeue = false;  ///< not submitted with --no-requeue
  bool preempted = false;    ///< another job gets its nodes
  int restarts = 0;          ///< more than when this run began: it is in the queue already
  std::optional<std::chrono::sys_seconds> end;
};

/// The command that prints a JobState, and the one that requeues the job, or prints why it could
/// not. Neither ends by the signals with which Slurm ends the job. One that prints nothing was
/// killed and has done nothing.
std::vector<std::string> state_query(const std::string& job);
std::vector<std::string> requeue_command(const std::string& job);

/// By the output of requeue_command.
bool has_requeued(std::string_view output);

/// The output of state_query; nullopt: it is none.
std::optional<JobState> parse_job_state(std::string_view text);

/// How ddprun ended.
struct JobEnd {
  int code = 0;            ///< its exit code
  bool lost_host = false;  ///< because the connection to a host was lost
  std::chrono::sys_seconds when;
};

struct RequeueDecision {
  bool requeue = false;
  std::string why;  ///< "its time limit was reached"; empty: nothing is to be said
};

// clang-format off
/// The first row that fits, of one that has not succeeded:
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
/// No row requeues a job that is no batch job, or may not be, or was so often already.
// clang-format on
RequeueDecision decide_requeue(const RequeueSpec& spec, const JobEnd& end, const JobState& state);

}  // namespace ddprun::engine
