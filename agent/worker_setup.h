// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "agent/job_spec.h"
#include "agent/worker_env.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/log_dir.h"
#include "launcher/spawn.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// What the workers of this node are started with, round after round: command, environment,
/// standard streams, log files and CPUs. What the user should know about it goes to the log.
class WorkerSetup {
 public:
  struct Worker {
    launcher::Command command;  ///< its descriptors belong to the setup and to `sinks`
    std::string prefix;         ///< of its lines on the console
    std::array<launcher::StreamSink, 2> sinks;  ///< of stdout and stderr
  };

  /// `job` must outlive it.
  WorkerSetup(const JobSpec& job, std::string host_name);

  /// Makes the directory for log and error files; once, before any round.
  /// Errors: usage (--log_dir).
  Result<> open_logs();

  /// Makes the directories of a round; those of the round before are no longer used.
  /// Errors: system.
  Result<> begin_round(const rendezvous::Layout& layout);

  /// The workers of the round, by local rank. `store` becomes MASTER_ADDR and MASTER_PORT.
  /// Errors: usage (--prefix).
  Result<std::vector<Worker>> workers(const rendezvous::Endpoint& store);

  /// The file of the worker in the latest round; empty: none.
  std::string error_file(int local_rank) const { return logs_.error_file(local_rank); }

 private:
  Result<Worker> worker(int local_rank, const WorkerEnv& env, launcher::AttemptLogs& logs);
  std::array<launcher::StreamSink, 2> open_sinks(launcher::AttemptLogs& logs, int local_rank);
  Result<std::string> prefix_of(int local_rank) const;
  std::vector<int> cpus_of(int local_rank) const;
  void report_omp_limit(const WorkerEnv& env);
  void report_bindings() const;

  const JobSpec& job_;
  const std::string host_name_;
  const std::vector<std::string> inherited_;  // environment
  launcher::LogDir logs_;
  Fd no_input_;  // /dev/null
  rendezvous::Layout layout_;
  bool omp_limit_reported_ = false;
  bool missing_logs_reported_ = false;  // in this round
};

}  // namespace ddprun::agent
