// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/output/log_dir.h"
#include "launcher/output/log_file.h"
#include "launcher/output/log_spec.h"

namespace ddprun::launcher {

/// What becomes of one stream of a worker besides the console. By default nothing.
struct StreamSink {
  bool shown = true;              ///< it is on the console
  std::shared_ptr<LogFile> file;  ///< gets every byte; nullptr: none
  bool direct = false;            ///< the worker writes to `file` itself; ddprun reads nothing
  std::shared_ptr<LogFile> duplicates;  ///< of all workers: the lines with one of `filters`
  const std::vector<std::string>* filters = nullptr;  ///< set with `duplicates`

  /// What the worker is to have as this stream; -1: a pipe.
  int direct_fd() const { return direct ? file->fd() : -1; }
};

/// Opens the log files of one attempt as they are asked for. Both references must outlive this, and
/// `spec` the sinks.
class AttemptLogs {
 public:
  AttemptLogs(const LogSpec& spec, const LogDir& dir) : spec_(spec), dir_(dir) {}

  /// What becomes of this stream of that worker. Errors: system (a file cannot be opened).
  Result<StreamSink> sink(int local_rank, LogDir::Stream stream);

 private:
  Result<std::shared_ptr<LogFile>> duplicates(LogDir::Stream stream);

  const LogSpec& spec_;
  const LogDir& dir_;
  std::shared_ptr<LogFile> duplicates_of_out_;
  std::shared_ptr<LogFile> duplicates_of_err_;
};

}  // namespace ddprun::launcher
