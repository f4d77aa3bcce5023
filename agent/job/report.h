// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "agent/job/job_spec.h"
#include "launcher/process/exit_status.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"

// The sentences about failures and rounds. Each function returns one message for log::error or
// log::info, without a final newline. It fits on one screen for any number of ranks and any output
// of workers: untrusted text is cut, and its control characters are escaped. Pure.

namespace ddprun::agent {

/// The report of a job that ends: the rank for which the failed one waited, if it is known; the
/// cause, with the worker's exception and its innermost calls; the end of its stderr without these;
/// the ends of the other workers; the exit code and why the job is not restarted. The same on every
/// node. One line if a worker could not be started and no others ran.
std::string failure_report(const rendezvous::Failed& failed);

/// The line about a failure after which the job continues: the cause, with the exception or else
/// the last line of the worker's stderr.
std::string failure_line(const rendezvous::Failure& root_cause, int round);

/// The rendezvous' sentence about the ranks for which the first failed rank waited.
std::string suspect_line(const std::string& suspect);

/// No rank makes progress, or some do again: the master's lines, and the last heartbeats of this
/// node's workers, if any.
std::string stall_report(const std::string& text, const std::string& statuses);

/// The cause for workers that wait for the failed one: "rank 3 on host gpu-07 was killed by
/// SIGKILL", "rank 3 on host gpu-07 failed: exit 1: RuntimeError: loss is nan".
std::string loss_text(const rendezvous::Failure& root_cause);

/// The round after a failure: "restart 1 of 3: round 1 with 2 nodes, 16 workers, ready 38 ms after
/// the failure".
std::string restart_line(const rendezvous::Layout& layout, int max_restarts,
                         std::chrono::nanoseconds since_failure);

/// The round after a change of membership: "round 3 with 3 of 2:4 nodes, 24 workers".
std::string regroup_line(const rendezvous::Layout& layout, int min_nodes, int max_nodes);

/// A worker that ran when ddprun stopped its node's workers.
struct StoppedWorker {
  int rank = 0;
  launcher::ExitStatus status;
  std::string stderr_tail;
};

/// After a stop with `signal`: "ranks 0-6 ended with exit code 0; rank 7 failed while stopping:
/// exit 1: RuntimeError: disk is full". Empty if all ended by the signal, or were killed.
std::string stop_line(std::vector<StoppedWorker> workers, int signal);

/// The line about a signal for only the workers that handle it: "SIGUSR2 to all workers", "no
/// worker here handles SIGUSR2, so none gets it".
std::string notice_text(int signal, std::size_t signalled, std::size_t workers);

/// If ddprun ran the program by Python, and it failed because that Python lacks a module: the
/// cause, with the Python's path. Else empty.
std::string missing_module_text(const rendezvous::Failure& failure, const JobSpec& job);

}  // namespace ddprun::agent
