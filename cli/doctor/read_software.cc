// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/blocking_io.h"
#include "base/fd.h"
#include "cli/doctor/read_facts.h"
#include "launcher/process/spawn.h"

namespace ddprun::doctor {
namespace {

constexpr std::int64_t kMostDigestBytes = 32 << 20;  // a twentieth of a second
constexpr std::chrono::seconds kPythonLimit{20};
constexpr size_t kMostVersions = 4096;  // bytes of python's answer

/// Imports only modules that know versions: torch itself takes seconds.
constexpr const char* kVersions = R"(
import importlib.metadata as m, platform
print("Python", platform.python_version())
for label, names in (("torch", ["torch"]), ("jaxlib", ["jaxlib"]),
                     ("NCCL", ["nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"])):
    for name in names:
        try:
            print(label, m.version(name))
            break
        except Exception:
            pass
)";

/// FNV-1a over the size and the beginning: tells programs apart, but does not prove that they are
/// the same. Empty: it cannot be read.
std::string digest(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ static_cast<std::uint64_t>(status.st_size);
  const auto chunk = std::make_unique<std::array<char, 1 << 16>>();
  std::int64_t left = kMostDigestBytes;
  for (ssize_t n; left > 0 && (n = read(file.get(), chunk->data(), chunk->size())) > 0; left -= n) {
    for (ssize_t i = 0; i < n; ++i) {
      hash =
          (hash ^ static_cast<unsigned char>((*chunk)[static_cast<size_t>(i)])) * 0x100000001b3ULL;
    }
  }
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  return all;
}

std::string read_until(const Fd& pipe, Deadline deadline) {
  std::string text;
  std::array<char, 1024> bytes;
  while (text.size() < kMostVersions && wait_for(pipe.get(), POLLIN, deadline) == 0) {
    const ssize_t size = read(pipe.get(), bytes.data(), bytes.size());
    if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) break;
    text.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  return text;
}

/// The part of the interpreter's output that comes in time.
std::string versions(const std::string& python) {
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return "";
  const std::vector<launcher::Command> commands = {
      {python, {python, "-c", kVersions}, environment(), nothing.get(), -1, nothing.get()}};
  launcher::Spawned spawned = launcher::spawn(commands);
  if (spawned.children.empty()) return "";
  const launcher::Child& child = spawned.children.front();
  std::string text = read_until(child.out, std::chrono::steady_clock::now() + kPythonLimit);
  kill(-child.pid, SIGKILL);  // its group, which exists until it is reaped
  siginfo_t info = {};
  waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED);
  return text;
}

}  // namespace

void read_software(Facts& facts, const Order& order) {
  if (!order.program.empty()) {
    const std::string own = digest(order.program);
    if (!own.empty()) facts.traits["program"] = own;
  }
  if (order.python.empty()) return;
  const std::string text = versions(order.python);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t space = line.find(' ');
    if (space != std::string::npos) facts.traits[line.substr(0, space)] = line.substr(space + 1);
    at = end + 1;
  }
}

}  // namespace ddprun::doctor
