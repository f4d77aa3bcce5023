// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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

/// Where the streams of all workers of an attempt go.
struct AttemptSinks {
  AttemptFiles files;                              ///< none if their directories cannot be created
  std::vector<std::array<StreamSink, 2>> workers;  ///< of stdout and stderr, by local rank
  std::vector<std::string> warnings;               ///< for the user
};

/// Creates the directories of `files` and opens the log files. What cannot be opened is on the
/// console, so that it is not lost. May block; for any thread. `spec` must outlive the sinks.
AttemptSinks open_sinks(const LogSpec& spec, AttemptFiles files, int local_size);

}  // namespace ddprun::launcher
