// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/abandoned_dirs.h"

#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/guardian/guardian.h"

namespace ddprun::launcher {
namespace {

constexpr size_t kRandomPart = 6;  // of mkdtemp

/// Whether the directory is this user's, and has not been removed.
bool is_own(const Fd& directory) {
  struct stat status = {};
  return fstat(directory.get(), &status) == 0 && status.st_uid == geteuid() && status.st_nlink > 0;
}

}  // namespace

Fd lock_directory(const std::string& path) {
  Fd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  // Between open and flock another process may have removed it: so is_own comes last.
  if (!directory || flock(directory.get(), LOCK_EX | LOCK_NB) != 0 || !is_own(directory))
    return Fd();
  return directory;
}

void remove_abandoned_dirs(const std::string& folder, const std::string& prefix) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
  if (!entries) return;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.size() != prefix.size() + kRandomPart || !name.starts_with(prefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (const Fd lock = lock_directory(path)) remove_directory(path);
  }
}

}  // namespace ddprun::launcher
