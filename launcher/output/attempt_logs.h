// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/log_dir.h"
#include "launcher/output/log_spec.h"

namespace ddprun::launcher {

/// A file opened for appending. It may be the stdout of a worker and its children, and may be
/// truncated at any time. Thread: any.
class LogFile {
 public:
  /// Opens `path`, and creates it if missing. Errors: system.
  static Result<LogFile> open(std::string path);

  /// Writes all of `bytes` to the kernel. Errors: system (a full disk); then some are missing.
  Result<> append(std::string_view bytes) const;

  /// The last bytes, at most `count`; empty for a device.
  std::string tail(size_t count) const;

  /// The descriptor, for a process that writes directly; this object owns it.
  int fd() const { return fd_.get(); }

 private:
  LogFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

/// The destination of one stream of a worker; by default only the console.
struct StreamSink {
  bool shown = true;                    ///< also on the console
  std::shared_ptr<LogFile> file;        ///< gets all bytes; nullptr: no file
  bool direct = false;                  ///< the worker writes to `file` itself; there is no pipe
  std::shared_ptr<LogFile> duplicates;  ///< gets all workers' lines with one of `filters`
  const std::vector<std::string>* filters = nullptr;  ///< set with `duplicates`

  /// The descriptor for the worker to write to; -1: a pipe.
  int direct_fd() const { return direct ? file->fd() : -1; }
};

/// The destinations of all workers' streams of an attempt.
struct AttemptSinks {
  AttemptFiles files;  ///< no files if their directories cannot be created
  std::vector<std::array<StreamSink, 2>> workers;  ///< stdout and stderr, by local rank
  std::vector<std::string> warnings;               ///< for the user
};

/// Creates the directories of `files` and opens the log files. The console gets the output whose
/// file cannot be opened. May block; for any thread. `spec` must outlive the sinks.
AttemptSinks open_sinks(const LogSpec& spec, AttemptFiles files, int local_size);

}  // namespace ddprun::launcher
