// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/socket_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/number.h"
#include "base/secret.h"

namespace ddprun::agent::ask {
namespace {

constexpr std::string_view kEnding = ".sock";
constexpr std::string_view kHeartbeats = "heartbeats-";  // begins such a socket's name
constexpr size_t kRandomLength = 6;  // of a recorder's name, as remove_abandoned_dirs expects it
constexpr size_t kLongestRank = 16;  // "/" and a number
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kShortestJob = 8;  // bytes of a job's name that still tell it from others

/// Whether no other user can have put a socket or a link into `folder`.
bool is_safe(const std::string& folder) {
  struct stat status = {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

/// `job` as the beginning of a file's name, at most `most` bytes of it.
std::string name_of(const std::string& job, size_t most) {
  std::string name = job.substr(0, most);
  const auto is_plain = [](unsigned char c) {
    return std::string_view("-_+=@:.").find(static_cast<char>(c)) != std::string_view::npos ||
           (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  std::replace_if(name.begin(), name.end(), [&](char c) { return !is_plain(c); }, '_');
  if (name.starts_with('.')) name.front() = '_';
  return name;
}

Result<> make(const std::string& folder) {
  const bool made = mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
  if (!made) return os_error("cannot create " + folder, errno);
  if (is_safe(folder)) return {};
  return Error{Errc::system, folder + " is not a folder of this user that only they may enter"};
}

/// The pid in "JOB.PID.sock"; 0: it is a socket for heartbeats; nullopt: another name.
std::optional<pid_t> pid_in(std::string_view name) {
  if (!name.ends_with(kEnding)) {
    return name.starts_with(kHeartbeats) ? std::optional(0) : std::nullopt;
  }
  name.remove_suffix(kEnding.size());
  name.remove_prefix(std::min(name.rfind('.'), name.size() - 1) + 1);
  return whole_number<pid_t>(name, 1);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const Directory entries = open_directory(folder.c_str());
  while (const dirent* entry = entries ? readdir(entries.get()) : nullptr) {
    names.emplace_back(entry->d_name);
  }
  return names;
}

/// The folders that were made because the name of this one was taken.
std::vector<std::string> substitutes_of(const std::string& folder) {
  const std::string parent = folder.substr(0, folder.rfind('/') + 1);
  std::vector<std::string> found;
  for (const std::string& name : names_in(parent)) {
    const std::string path = parent + name;
    if (path.starts_with(folder + "-") && is_safe(path)) found.push_back(path);
  }
  return found;
}

/// Makes the first usable folder in which a path has at least `room` more bytes. The last resort
/// has a random name, which nobody can have taken before.
Result<std::string> usable_folder(const std::vector<std::string>& folders, size_t room) {
  constexpr const char* kRandomPart = "-XXXXXX";
  Error last{Errc::system, "there is no folder for the socket"};
  std::vector<std::string> taken;
  for (const std::string& folder : folders) {
    if (folder.size() + std::strlen(kRandomPart) + room > kLongestPath) {
      last.message = "the path of a socket in " + folder + " would be too long";
      continue;
    }
    const Result<> made = make(folder);
    if (made) return folder;
    last = made.error();
    taken.push_back(folder);
  }
  for (const std::string& folder : taken) {
    const std::vector<std::string> substitutes = substitutes_of(folder);
    if (!substitutes.empty()) return substitutes.front();
    std::string path = folder + kRandomPart;
    if (mkdtemp(path.data()) != nullptr) return path;
  }
  return last;
}

/// A path to which `room` bytes may be added.
Result<std::string> path_of(const std::vector<std::string>& folders, const std::string& name,
                            size_t room) {
  const Result<std::string> folder = usable_folder(folders, 1 + name.size() + room);
  if (!folder) return folder;
  return *folder + "/" + name;
}

}  // namespace

std::vector<std::string> lasting_folders() {
  const std::string name = "/ddprun-" + std::to_string(geteuid());
  return {"/tmp" + name, "/dev/shm" + name};
}

std::vector<std::string> socket_folders() {
  std::vector<std::string> folders = lasting_folders();
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') {
    folders.insert(folders.begin(), std::string(runtime) + "/ddprun");
  }
  return folders;
}

Result<std::string> socket_path(const std::vector<std::string>& folders, const std::string& job,
                                pid_t pid) {
  const std::string ending = "." + std::to_string(pid) + std::string(kEnding);
  const Result<std::string> folder = usable_folder(folders, 1 + kShortestJob + ending.size());
  if (!folder) return folder;
  const size_t fixed = folder->size() + 1 + ending.size();
  return *folder + "/" + name_of(job, kLongestPath - fixed) + ending;
}

Result<std::string> heartbeat_path(const std::vector<std::string>& folders) {
  return path_of(folders, std::string(kHeartbeats) + random_name(), 0);
}

Result<std::string> recorder_path(const std::vector<std::string>& folders) {
  const std::string random = random_name().substr(0, kRandomLength);
  return path_of(folders, kRecorderFolder + random, kLongestRank);
}

std::vector<std::string> safe_folders(const std::vector<std::string>& folders) {
  std::vector<std::string> safe;
  for (const std::string& folder : folders) {
    for (std::string& found : substitutes_of(folder)) safe.push_back(std::move(found));
    if (is_safe(folder)) safe.push_back(folder);
  }
  return safe;
}

std::vector<Socket> sockets_in(const std::vector<std::string>& folders) {
  std::vector<Socket> sockets;
  for (const std::string& folder : safe_folders(folders)) {
    for (const std::string& name : names_in(folder)) {
      if (const auto pid = pid_in(name)) sockets.push_back({folder + "/" + name, *pid});
    }
  }
  std::ranges::sort(sockets, {}, &Socket::path);
  return sockets;
}

}  // namespace ddprun::agent::ask
