// SPDX-License-Identifier: Apache-2.0
#include "base/file_text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/number.h"

namespace ddprun {

std::string file_text(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (file) read_all(file.get(), std::string::npos, text);
  return text;
}

std::optional<std::int64_t> file_number(const std::string& path) {
  return leading_number<std::int64_t>(file_text(path));
}

int read_all(int fd, std::size_t most, std::string& text) {
  std::array<char, 4096> bytes;
  while (text.size() < most) {
    const ssize_t size = read(fd, bytes.data(), std::min(bytes.size(), most - text.size()));
    if (size == 0) break;
    if (size > 0) text.append(bytes.data(), static_cast<std::size_t>(size));
    if (size < 0 && errno != EINTR) return errno;
  }
  return 0;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size > 0) text.remove_prefix(static_cast<std::size_t>(size));
    if (size < 0 && errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace ddprun
