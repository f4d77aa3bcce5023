// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// A file opened for appending. A worker and its children may have it as their stdout, and it may
/// be truncated meanwhile. Thread: any.
class LogFile {
 public:
  /// Opens `path`, and creates it if missing. Errors: system.
  static Result<LogFile> open(std::string path);

  /// Writes all of `bytes` to the kernel. Errors: system (a full disk); then some are missing.
  Result<> append(std::string_view bytes) const;

  /// The last bytes, at most `count`; none if it is a device.
  std::string tail(size_t count) const;

  /// For a process that writes directly; owned by this object.
  int fd() const { return fd_.get(); }

 private:
  LogFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace ddprun::launcher
