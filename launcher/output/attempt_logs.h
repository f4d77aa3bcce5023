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

/// Where one stream of a worker goes. By default only to the console.
struct StreamSink {
  bool shown = true;                    ///< also on the console
  std::shared_ptr<LogFile> file;        ///< gets all bytes; nullptr: none
  bool direct = false;                  ///< the worker writes to `file` itself; there is no pipe
  std::shared_ptr<LogFile> duplicates;  ///< lines with one of `filters`, of all workers
  const std::vector<std::string>* filters = nullptr;  ///< set with `duplicates`

  /// The descriptor for the worker to write to; -1: a pipe.
  int direct_fd() const { return direct ? file->fd() : -1; }
};

/// Opens the log files of one attempt on demand. `spec` and `dir` must outlive this, and `spec`
/// also the sinks.
class AttemptLogs {
 public:
  AttemptLogs(const LogSpec& spec, const LogDir& dir) : spec_(spec), dir_(dir) {}

  /// Where this stream of this worker goes. Errors: system (a file cannot be opened).
  Result<StreamSink> sink(int local_rank, LogDir::Stream stream);

 private:
  Result<std::shared_ptr<LogFile>> duplicates(LogDir::Stream stream);

  const LogSpec& spec_;
  const LogDir& dir_;
  std::shared_ptr<LogFile> duplicates_of_out_;
  std::shared_ptr<LogFile> duplicates_of_err_;
};

}  // namespace ddprun::launcher
