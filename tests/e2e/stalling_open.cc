// SPDX-License-Identifier: Apache-2.0
// Preloaded into ddprun: files with $STALLING_FILE in their path are on a file server that never
// answers its readers; and reading the folder $STALLING_FOLDER takes as long as the file
// $STALLING_WHILE is there.
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

bool stalls(const char* path, int flags) {
  const char* file = std::getenv("STALLING_FILE");
  const char* folder = std::getenv("STALLING_FOLDER");
  const char* as_long_as = std::getenv("STALLING_WHILE");
  if ((flags & O_ACCMODE) != O_RDONLY) return false;
  if (file != nullptr && std::strstr(path, file) != nullptr) return true;
  return folder != nullptr && as_long_as != nullptr && std::strcmp(path, folder) == 0 &&
         access(as_long_as, F_OK) == 0;
}

int open_or_stall(const char* path, int flags, mode_t mode) {
  while (stalls(path, flags)) usleep(10'000);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

mode_t mode_of(int flags, va_list& arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// The names of the C library's parameters are reserved for it.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_stall(path, flags, mode);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_stall(path, flags, mode);
}
