// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "agent/job_spec.h"
#include "agent/outcome.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/exit_status.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// What happens in a job, as one JSON object a line appended to the file the user named, in the
/// order and at the moment it happens. docs/events.md lists every event and field.
///
/// Each line is one write at the end of the file, so lines of several writers never tear. A write
/// that fails is told once, as a warning, and does not disturb the job.
/// Default constructed, or opened with an empty path: every call does nothing.
/// Thread: one.
class Events {
 public:
  /// Opens `path` for appending, creating it when it is not there. A device will do, and a named
  /// pipe that has a reader; lines that do not fit into a pipe are dropped.
  /// Errors: usage (it cannot be opened).
  static Result<Events> open(const std::string& path);

  Events() = default;

  void job_started(const JobSpec& job);
  /// The rendezvous listens at `port`, without workers of its own.
  void serving(std::uint16_t port);
  void round_ready(const rendezvous::Layout& layout, std::string_view master_addr,
                   std::uint16_t master_port);
  void worker_started(int round, int rank, int local_rank, pid_t pid);
  /// `seconds`: how long it ran. `exception`: what it told that ended it; empty: nothing.
  void worker_ended(int round, int rank, int local_rank, pid_t pid, launcher::ExitStatus status,
                    double seconds, std::string_view exception);
  /// The workers of `round` that are left get `signal` from ddprun.
  void round_stopping(int round, int signal);
  /// A restart was spent; `restarts` counts it.
  void restart(int round, int restarts, int max_restarts);
  /// ddprun itself received `signal`.
  void signal_received(int signal);
  /// `exit_code` is what ddprun is about to end with.
  void job_ended(const Outcome& outcome, int exit_code);

 private:
  struct Fields;

  void append(std::string_view event, const Fields& fields);

  Fd file_;
  std::string path_;
  bool told_failure_ = false;
};

}  // namespace ddprun::agent
