// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

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

}  // namespace ddprun::launcher
