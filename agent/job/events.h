// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "agent/job/job_spec.h"
#include "agent/job/outcome.h"
#include "base/error.h"
#include "base/job_threads.h"
#include "launcher/process/exit_status.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// Appends each event of a job to the user's file at the moment it happens, as one JSON object a
/// line. docs/events.md lists every event and field.
///
/// Each line is one write at the end of the file, so lines of several writers are not mixed. A
/// thread writes them: a stalled disk delays nothing else. At the event after the first lost line,
/// a warning is logged; the job continues.
/// Default constructed, or opened with an empty path: every call does nothing.
/// Thread: one.
class Events {
 public:
  /// Opens `path` for appending and creates it if needed. It may be a device, or a named pipe that
  /// has a reader; lines that do not fit into a pipe are dropped.
  /// Errors: usage (it cannot be opened).
  static Result<Events> open(const std::string& path);

  Events() = default;

  void job_started(const JobSpec& job);
  /// The rendezvous listens at `port`, in a process without workers.
  void serving(std::uint16_t port);
  void round_ready(const rendezvous::Layout& layout, std::string_view master_addr,
                   std::uint16_t master_port);
  void worker_started(int round, int rank, int local_rank, pid_t pid);
  /// `seconds`: how long it ran. `exception`: from its error file; may be empty.
  void worker_ended(int round, int rank, int local_rank, pid_t pid, launcher::ExitStatus status,
                    double seconds, std::string_view exception);
  /// ddprun sends `signal` to the workers of `round` that still run.
  void round_stopping(int round, int signal);
  /// `restarts` includes this one.
  void restart(int round, int restarts, int max_restarts);
  /// No rank makes progress, or some do again. `report` is text for readers, of several lines.
  void hang(int round, std::string_view report);
  /// ddprun itself received `signal`.
  void signal_received(int signal);
  /// `exit_code` is ddprun's.
  void job_ended(const Outcome& outcome, int exit_code);

  /// The last call before exit: waits for at most `limit` until all lines are written. Blocks.
  void finish(std::chrono::milliseconds limit);

 private:
  struct Fields;
  struct File;

  void append(std::string_view event, const Fields& fields);
  void report_loss();

  std::shared_ptr<File> file_;  // shared with the thread; nullptr: the user wants no events
  JobThreads thread_;
  std::string path_;
  bool stalled_ = false;  // lines were dropped
  bool loss_reported_ = false;
};

}  // namespace ddprun::agent
