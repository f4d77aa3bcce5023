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

// Traces of a failure on its host, beside the worker's own words.

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
