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

namespace ddprun::agent {

// Traces of a failure on its host, beside the worker's own words. Each function reads files, which
// may take as long as their disk does; for any thread.

/// A cause: no space is left on the disk of one of its log `files`. Empty: there is.
std::string full_disk_text(const std::vector<std::string>& files);

/// Where the core of process `pid` is, which ended with `status`: a path, or what shows it. Empty:
/// it left none, or not where it is looked for.
std::string core_of(launcher::ExitStatus status, pid_t pid);

/// What a worker that ended has left.
struct Traces {
  WorkerException exception;
  std::string stderr_end;
  std::string cause;       ///< that the host shows; may be empty
  std::string core;        ///< where it is; empty: there is none, or it is unknown
  std::string log_folder;  ///< of its log files; empty: it has none
};

/// Where it leaves them.
struct TracePlaces {
  std::string error_file;
  std::vector<std::string> log_files;  ///< to which alone it writes
  std::string log_folder;              ///< of all its log files; may be empty
  launcher::Output::StderrEnd stderr_end;
};

/// Reads traces on a thread.
///
/// It must be there as long as the executor runs. Thread: the executor's.
class TraceReader {
 public:
  using Done = std::function<void(const Traces&)>;

  explicit TraceReader(boost::asio::any_io_executor executor)
      : executor_(executor), disk_(std::move(executor)) {}

  /// Calls `done`, once and not from within: with all, or after a second with the end of stderr as
  /// far as it is here. Of a worker that was stopped: what it had reported before `stopped`, as the
  /// kernel dates files.
  void read(const launcher::WorkerEnd& end, TracePlaces places, std::timespec stopped, Done done);

 private:
  boost::asio::any_io_executor executor_;
  AsyncJobs disk_;
};

}  // namespace ddprun::agent
