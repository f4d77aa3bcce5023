// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/py_spy.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "launcher/process/spawn.h"

namespace ddprun::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostDumpBytes = 1024 * 1024;  // of one dump
constexpr size_t kMostDumps = 64;

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) all.emplace_back(*variable);
  return all;
}

/// A running py-spy.
struct Dump {
  pid_t of;
  Child child;
  std::string text = {};
  bool complete = false;
};

/// Returns whether more may come.
bool read_some(Dump& dump) {
  std::array<char, 16'384> bytes;
  const ssize_t size = read(dump.child.out.get(), bytes.data(), bytes.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  dump.text.append(bytes.data(), static_cast<size_t>(size));
  dump.complete = size == 0;
  return size > 0 && dump.text.size() <= kMostDumpBytes;
}

void read_until(std::vector<Dump>& dumps, Clock::time_point deadline) {
  std::vector<pollfd> open;
  for (const Dump& dump : dumps) open.push_back({dump.child.out.get(), POLLIN, 0});
  while (std::ranges::any_of(open, [](const pollfd& fd) { return fd.fd >= 0; })) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || poll(open.data(), open.size(), static_cast<int>(left.count())) == 0) {
      return;
    }
    for (size_t i = 0; i < dumps.size(); ++i) {
      if (open[i].fd >= 0 && open[i].revents != 0 && !read_some(dumps[i])) open[i].fd = -1;
    }
  }
}

/// Uses the pidfd, because the loop's thread may have reaped it already.
void end(const Child& child) {
  siginfo_t info = {};
  syscall(SYS_pidfd_send_signal, child.pidfd.get(), SIGKILL, nullptr, 0);
  waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED);
}

}  // namespace

bool is_python(std::string_view program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

bool runs_python(pid_t pid) {
  std::array<char, PATH_MAX> path;
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  const ssize_t size = readlink(link.c_str(), path.data(), path.size());
  const std::string_view exe(path.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  return is_python(exe);
}

std::string find_py_spy(const std::string& program) {
  const char* const path = std::getenv("PATH");
  const std::string beside = is_python(program) ? program.substr(0, program.rfind('/')) : "";
  const std::string folders = beside + ":" + (path ? path : "");
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string file = folders.substr(begin, end - begin) + "/py-spy";
    if (file.starts_with('/') && file != "/py-spy" && access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return "";
}

std::map<pid_t, std::string> py_spy_dumps(const std::string& py_spy, const std::vector<pid_t>& pids,
                                          std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  std::vector<Command> commands;
  std::vector<Dump> dumps;
  for (const pid_t pid : pids) {
    if (!nothing || !runs_python(pid) || commands.size() == kMostDumps) continue;
    commands.push_back({py_spy,
                        {"py-spy", "dump", "--nonblocking", "--json", "--pid", std::to_string(pid)},
                        environment(),
                        nothing.get(),
                        -1,
                        nothing.get()});
    dumps.push_back({pid, {}});
  }
  Spawned spawned = spawn(std::move(commands));
  dumps.resize(spawned.children.size());
  for (size_t i = 0; i < dumps.size(); ++i) dumps[i].child = std::move(spawned.children[i]);
  read_until(dumps, deadline);
  std::map<pid_t, std::string> texts;
  for (Dump& dump : dumps) {
    end(dump.child);
    if (dump.complete && !dump.text.empty()) texts[dump.of] = std::move(dump.text);
  }
  return texts;
}

}  // namespace ddprun::launcher
