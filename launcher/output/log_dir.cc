// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/log_dir.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
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
  const Directory entries = open_directory(folder.c_str());
  if (!entries) return;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.size() != prefix.size() + kRandomPart || !name.starts_with(prefix)) continue;
    const std::string path = folder + "/" + entry->d_name;
    if (const Fd lock = lock_directory(path)) remove_directory(path);
  }
}

namespace {

namespace fs = std::filesystem;

/// The beginning of the name of a temporary directory that has only error files.
constexpr const char* kErrorDir = "ddprun_errors-";

/// Its place, unless TMPDIR names another.
constexpr const char* kMemory = "/dev/shm";

/// Leaves room for the random part: NAME_MAX is 255 bytes.
constexpr size_t kLongestName = 200;

/// `run_id` as the beginning of a file name: no slash, no leading dot, not too long.
std::string name_of(const std::string& run_id) {
  std::string name = run_id;
  if (name.size() > kLongestName) {
    size_t end = kLongestName;
    while (end > 0 && (name[end] & '\xC0') == '\x80') --end;  // not inside a character
    name.resize(end);
  }
  std::replace(name.begin(), name.end(), '/', '_');
  if (name.starts_with('.')) name.front() = '_';
  return name;
}

Error root_error(const std::string& root, const std::string& why) {
  return {Errc::usage, "--log_dir " + root + ": " + why};
}

/// Appends random characters to `path` and creates the directory. False, with errno, on failure.
bool make_unique(std::string& path) {
  path += "XXXXXX";
  return mkdtemp(path.data()) != nullptr;
}

std::string in_attempt(const std::string& attempt_dir, int local_rank) {
  return attempt_dir + "/" + std::to_string(local_rank);
}

const char* name_of(AttemptFiles::Stream stream) {
  return stream == AttemptFiles::Stream::out ? "stdout.log" : "stderr.log";
}

}  // namespace

LogDir::~LogDir() {
  if (!is_temporary_) return;
  remove_directory(run_);
  set_cleanup_dir("");
}

Result<> LogDir::open(const std::string& root, const std::string& run_id, bool logs) {
  discards_ = root == kNone;
  if (discards_) return {};
  if (root.empty()) {
    is_temporary_ = !logs;
    return open_temporary(logs ? "ddprun_" + name_of(run_id) + "_" : kErrorDir);
  }

  std::error_code error;
  const fs::path absolute = fs::absolute(root, error);
  if (!error) fs::create_directories(absolute, error);
  if (error == std::errc::not_a_directory || error == std::errc::file_exists) {
    return root_error(root, "not a directory; give a directory, which is created if missing");
  }
  if (error) return root_error(root, "cannot create this directory: " + error.message());
  std::string run = (absolute / (name_of(run_id) + "_")).string();
  if (!make_unique(run)) {
    return root_error(root, os_error("cannot create a directory in it", errno).message);
  }
  run_ = std::move(run);
  return {};
}

Result<> LogDir::open_temporary(const std::string& name) {
  const char* chosen = std::getenv("TMPDIR");
  // Removing a directory takes milliseconds on a disk, and a microsecond in memory.
  const char* memory = is_temporary_ ? kMemory : "";
  for (const std::string place : {chosen == nullptr ? "" : chosen, memory, memory, "/tmp"}) {
    std::error_code error;
    if (place.empty()) continue;
    std::string run = (fs::absolute(place, error) / name).string();
    if (error || !make_unique(run)) continue;
    if (is_temporary_) lock_ = lock_directory(run);
    if (is_temporary_ && !lock_ && place == memory) {  // another ddprun takes it for abandoned
      rmdir(run.c_str());
      continue;
    }
    run_ = std::move(run);
    if (is_temporary_) set_cleanup_dir(run_);
    return {};
  }
  is_temporary_ = false;
  return os_error("cannot create a temporary directory in $TMPDIR or /tmp", errno);
}

void LogDir::remove_abandoned() {
  for (const char* begin : {kErrorDir, kMpiFolder}) remove_abandoned_dirs(kMemory, begin);
}

AttemptFiles LogDir::begin_attempt(int round) {
  attempt_ = std::max(round, attempt_ + 1);
  const std::string number = std::to_string(attempt_);
  AttemptFiles files;
  files.discards_ = discards_;
  if (is_temporary_) {
    files.error_prefix_ = run_ + "/error_" + number + "_";
  } else if (!run_.empty()) {
    files.dir_ = run_ + "/attempt_" + number;
  }
  return files;
}

Result<> AttemptFiles::make_directories(int local_size) const {
  if (mkdir(dir_.c_str(), S_IRWXU) != 0) return os_error("cannot create " + dir_, errno);
  for (int local_rank = 0; local_rank < local_size; ++local_rank) {
    const std::string own = in_attempt(dir_, local_rank);
    if (mkdir(own.c_str(), S_IRWXU) != 0) return os_error("cannot create " + own, errno);
  }
  return {};
}

std::string AttemptFiles::error_file(int local_rank) const {
  if (has_directories()) return in_attempt(dir_, local_rank) + "/error.json";
  return error_prefix_.empty() ? "" : error_prefix_ + std::to_string(local_rank) + ".json";
}

std::string AttemptFiles::folder(int local_rank) const {
  return has_directories() ? in_attempt(dir_, local_rank) : "";
}

std::string AttemptFiles::log_file(int local_rank, Stream stream) const {
  if (discards_) return std::string(LogDir::kNone);
  return in_attempt(dir_, local_rank) + "/" + name_of(stream);
}

std::string AttemptFiles::filtered_file(Stream stream) const {
  if (discards_) return std::string(LogDir::kNone);
  return dir_ + "/filtered_" + name_of(stream);
}

}  // namespace ddprun::launcher
