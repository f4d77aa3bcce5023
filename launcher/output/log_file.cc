// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/log_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {

Result<LogFile> LogFile::open(std::string path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
  Fd fd(::open(path.c_str(), kFlags, 0666));
  if (!fd) return os_error("cannot open " + path, errno);
  return LogFile(std::move(path), std::move(fd));
}

Result<> LogFile::append(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return os_error("cannot write to " + path_, errno);
    }
  }
  return {};
}

std::string LogFile::tail(size_t count) const {
  struct stat file{};
  if (fstat(fd_.get(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  const auto size = static_cast<size_t>(file.st_size);
  std::string text(std::min(size, count), '\0');
  const ssize_t got =
      pread(fd_.get(), text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace ddprun::launcher
