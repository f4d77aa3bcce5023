// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/command_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/process/spawn.h"

namespace ddprun::launcher {
namespace {

using CommandClock = std::chrono::steady_clock;

constexpr size_t kMostOutput = 64 * 1024;

/// env(1) searches PATH. It needs no search itself: POSIX systems have it there.
Command command_of(const std::vector<std::string>& words, const Fd& nothing) {
  Command command;
  command.program = "/usr/bin/env";
  command.arguments = {"env"};
  command.arguments.insert(command.arguments.end(), words.begin(), words.end());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    command.environment.emplace_back(*variable);
  }
  command.stdin_fd = nothing.get();
  command.stderr_fd = nothing.get();
  return command;
}

std::string program_of(const std::vector<std::string>& words) {
  const auto is_program = [](const std::string& word) {
    return word.find('=') == std::string::npos;
  };
  const auto program = std::find_if(words.begin(), words.end(), is_program);
  return program == words.end() ? "env" : *program;
}

/// Reads the pipe into `text`. Returns whether it ended in time.
bool read_to_end(const Fd& pipe, CommandClock::time_point deadline, std::string& text) {
  std::array<char, 4096> bytes;
  for (pollfd ready = {pipe.get(), POLLIN, 0}; text.size() < kMostOutput;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - CommandClock::now()).count();
    if (left <= 0) return false;
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t size = read(pipe.get(), bytes.data(), bytes.size());
    if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) break;
    text.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  return true;
}

/// Uses the pidfd, because another thread may have reaped the process already.
void end_command(const Child& child) {
  syscall(SYS_pidfd_send_signal, child.pidfd.get(), SIGKILL, nullptr, 0);
  siginfo_t info = {};
  waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED);
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& words,
                              std::chrono::milliseconds limit) {
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Spawned spawned = spawn({command_of(words, nothing)});
  if (spawned.failure) return *spawned.failure;
  std::string text;
  const bool in_time = read_to_end(spawned.children.front().out, CommandClock::now() + limit, text);
  end_command(spawned.children.front());
  if (const auto failure = spawned.batch.exec_failure(0)) return *failure;
  if (in_time) return text;
  return Error{Errc::timed_out, program_of(words) + " did not answer in " +
                                    std::to_string(limit.count() / 1000) + " s"};
}

}  // namespace ddprun::launcher
