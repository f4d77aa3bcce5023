// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// A file that grows at its end, whoever writes: a worker and all it starts may have it as their
/// stdout, and somebody may truncate it meanwhile. Thread: any one.
class LogFile {
 public:
  /// Opens `path`, which is made when it is missing. Errors: system.
  static Result<LogFile> open(std::string path);

  /// Writes all of `bytes`, and returns when the kernel has them. Errors: system (a full disk);
  /// some are missing then.
  Result<> append(std::string_view bytes) const;

  /// Its last bytes, at most `count`; of a device, none.
  std::string tail(size_t count) const;

  /// For a process that writes by itself; stays this object's.
  int fd() const { return fd_.get(); }

 private:
  LogFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace ddprun::launcher
