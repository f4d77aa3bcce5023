// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/job/error_file.h"
#include "base/async_jobs.h"
#include "launcher/guardian/worker_group.h"
#include "launcher/output/output.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/worker_calls.h"

namespace ddprun::agent {

// Traces of a failure on its host, beside the worker's own words. Each function reads files, so a
// disk may delay it; for any thread.

/// A cause: the disk of one of its log `files` has no space left. Empty: all have.
std::string full_disk_text(const std::vector<std::string>& files);

/// The place of the core of process `pid`, which ended with `status`: a path, or the command that
/// shows it. Empty: there is no core, or its place is unknown.
std::string core_of(launcher::ExitStatus status, pid_t pid);

/// The traces that an ended worker has left.
struct Traces {
  WorkerException exception;
  std::string stderr_end;
  std::string cause;       ///< what the host says about it; may be empty
  std::string core;        ///< the core's place; empty: unknown, or there is no core
  std::string log_folder;  ///< of its log files; empty: it has none
  std::vector<launcher::WorkerCall> calls{};  ///< collective, as PyTorch has recorded them
};

/// The places at which a worker leaves its traces.
struct TracePlaces {
  std::string error_file;
  std::vector<std::string> log_files;  ///< files that only this worker writes
  std::string log_folder;              ///< of all its log files; may be empty
  std::string calls_file;              ///< of its collective calls; may be empty
  launcher::Output::StderrEnd stderr_end;
};

/// Reads traces on a thread.
///
/// It must live as long as the executor runs. Thread: the executor's.
class TraceReader {
 public:
  using Done = std::function<void(const Traces&)>;

  explicit TraceReader(boost::asio::any_io_executor executor)
      : executor_(executor), disk_(std::move(executor)) {}

  /// Calls `done` once, later: with all traces, or after a second with those that need no disk. If
  /// ddprun stopped the worker, an error file counts only if the kernel's date is before `stopped`.
  void read(const launcher::WorkerEnd& end, TracePlaces places, std::timespec stopped, Done done);

 private:
  boost::asio::any_io_executor executor_;
  AsyncJobs disk_;
};

}  // namespace ddprun::agent
