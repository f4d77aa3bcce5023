// SPDX-License-Identifier: Apache-2.0
#include "cli/line/config_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file_text.h"
#include "cli/line/config.h"
#include "cli/line/usage_error.h"

namespace ddprun::cli {
namespace {

Error unreadable(int error_number) {
  return usage_error(os_error("cannot be read", error_number).message);
}

/// Why a found file does not count; empty: it does.
std::string distrust(const struct stat& status) {
  const uid_t own = geteuid();
  if (status.st_uid != own && status.st_uid != 0) {
    return "belongs to user " + std::to_string(status.st_uid) + ", and this is user " +
           std::to_string(own);
  }
  return (status.st_mode & S_IWOTH) != 0 ? "can be written by everybody" : "";
}

}  // namespace

Result<std::optional<std::string>> read_config_file(const std::string& path, bool named) {
  // O_NONBLOCK: opening a named pipe would wait.
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (named ? 0 : O_NOFOLLOW);
  const Fd file(open(path.c_str(), flags));
  if (!file) {
    if (!named && errno == ENOENT) return std::optional<std::string>();
    return errno == ELOOP ? usage_error("is a symbolic link") : unreadable(errno);
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return unreadable(errno);
  if (!S_ISREG(status.st_mode)) return usage_error("is not a regular file");
  if (const std::string why = named ? "" : distrust(status); !why.empty()) return usage_error(why);
  std::string text;
  if (const int error = read_all(file.get(), kLongestConfig + 1, text)) return unreadable(error);
  if (text.size() > kLongestConfig) {
    return usage_error("is longer than " + std::to_string(kLongestConfig) + " bytes");
  }
  return std::optional(std::move(text));
}

}  // namespace ddprun::cli
