// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>
#include <memory>
#include <unistd.h>
#include <utility>

namespace ddprun {

/// Owns a file descriptor and closes it. Move-only; -1: empty.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// Passes the descriptor to the caller, who closes it.
  int release() { return std::exchange(fd_, -1); }

  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

/// A directory that is read by readdir(3); nullptr: it cannot be opened.
using Directory = std::unique_ptr<DIR, CloseDirectory>;

inline Directory open_directory(const char* path) {
  return Directory(opendir(path));
}

}  // namespace ddprun
