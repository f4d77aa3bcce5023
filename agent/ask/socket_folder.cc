// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/socket_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

namespace ddprun::agent::ask {
namespace {

constexpr std::string_view kEnding = ".sock";
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kShortestJob = 8;  // that a name is worth having

/// No other user can have put a socket there, or a link.
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

/// The pid in "JOB.PID.sock"; 0: it is another name.
pid_t pid_in(std::string_view name) {
  if (!name.ends_with(kEnding)) return 0;
  name.remove_suffix(kEnding.size());
  name.remove_prefix(std::min(name.rfind('.'), name.size() - 1) + 1);
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc() && end == name.data() + name.size() ? pid : 0;
}

}  // namespace

std::vector<std::string> socket_folders() {
  std::vector<std::string> folders;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') folders.push_back(std::string(runtime) + "/ddprun");
  folders.push_back("/tmp/ddprun-" + std::to_string(geteuid()));
  return folders;
}

Result<std::string> socket_path(const std::vector<std::string>& folders, const std::string& job,
                                pid_t pid) {
  const std::string ending = "." + std::to_string(pid) + std::string(kEnding);
  Error last{Errc::system, "there is no folder for the socket"};
  for (const std::string& folder : folders) {
    const size_t fixed = folder.size() + 1 + ending.size();
    if (fixed + kShortestJob > kLongestPath) {
      last.message = "the path of a socket in " + folder + " would be too long";
      continue;
    }
    const Result<> made = make(folder);
    if (made) return folder + "/" + name_of(job, kLongestPath - fixed) + ending;
    last = made.error();
  }
  return last;
}

std::vector<Socket> sockets_in(const std::vector<std::string>& folders) {
  std::vector<Socket> sockets;
  for (const std::string& folder : folders) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), closedir);
    if (!entries || !is_safe(folder)) continue;
    while (const dirent* entry = readdir(entries.get())) {
      const pid_t pid = pid_in(entry->d_name);
      if (pid > 0) sockets.push_back({folder + "/" + entry->d_name, pid});
    }
  }
  std::ranges::sort(sockets, {}, &Socket::path);
  return sockets;
}

}  // namespace ddprun::agent::ask
