// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/command_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

constexpr size_t kMostOutput = 64 * 1024;
constexpr int kTimeAfterKill = 300;  // milliseconds

std::string program_of(const std::vector<std::string>& words) {
  const auto is_program = [](const std::string& word) {
    return word.find('=') == std::string::npos;
  };
  const auto program = std::find_if(words.begin(), words.end(), is_program);
  return program == words.end() ? "env" : *program;
}

/// Returns whether more may come.
bool read_some(const Fd& pipe, size_t most, CommandOutput& output) {
  std::array<char, 64 * 1024> bytes;
  const ssize_t size =
      read(pipe.get(), bytes.data(), std::min(bytes.size(), most - output.text.size()));
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  output.text.append(bytes.data(), static_cast<size_t>(size));
  output.is_whole = size == 0;
  return size > 0 && output.text.size() < most;
}

void read_until(Deadline deadline, const std::vector<Child>& children, size_t most,
                std::vector<CommandOutput>& outputs) {
  std::vector<pollfd> open;
  for (const Child& child : children) open.push_back({child.out.get(), POLLIN, 0});
  while (std::ranges::any_of(open, [](const pollfd& one) { return one.fd >= 0; })) {
    const int left = poll_time(deadline);
    if (left == 0) return;
    if (poll(open.data(), open.size(), left) <= 0) continue;
    for (size_t i = 0; i < open.size(); ++i) {
      if (open[i].revents != 0 && !read_some(children[i].out, most, outputs[i])) open[i].fd = -1;
    }
  }
}

/// Uses the pidfd, because another thread may have reaped the process already. A process that a
/// disk holds up beyond the deadline is left to that thread, except before its exec: it may still
/// use our memory then.
void end(const Child& child, bool has_begun, Deadline deadline) {
  syscall(SYS_pidfd_send_signal, child.pidfd.get(), SIGKILL, nullptr, 0);
  pollfd ended = {child.pidfd.get(), POLLIN, 0};
  if (poll(&ended, 1, has_begun ? std::max(poll_time(deadline), kTimeAfterKill) : -1) <= 0) return;
  siginfo_t info = {};
  waitid(P_PIDFD, static_cast<id_t>(child.pidfd.get()), &info, WEXITED);
}

}  // namespace

std::vector<CommandOutput> outputs_of(std::vector<Command> commands, size_t most,
                                      Deadline deadline) {
  const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto environment = std::make_shared<const std::vector<std::string>>(own_environment());
  for (Command& command : commands) {
    command.common_environment = environment;
    command.stdin_fd = command.stderr_fd = nothing.get();
  }
  std::vector<CommandOutput> outputs(commands.size());
  const Spawned spawned = spawn(std::move(commands));
  read_until(deadline, spawned.children, most, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    CommandOutput& output = outputs[i];
    const bool is_started = i < spawned.children.size();
    if (is_started) end(spawned.children[i], output.is_whole || !output.text.empty(), deadline);
    output.failure = is_started ? spawned.batch.exec_failure(i) : spawned.failure;
  }
  return outputs;
}

Result<std::string> output_of(const std::vector<std::string>& words,
                              std::chrono::milliseconds limit) {
  // env(1) searches PATH. It needs no search itself: POSIX systems have it there.
  Command command;
  command.program = "/usr/bin/env";
  command.arguments = {"env"};
  command.arguments.insert(command.arguments.end(), words.begin(), words.end());
  const auto deadline = std::chrono::steady_clock::now() + limit;
  CommandOutput output = std::move(outputs_of({std::move(command)}, kMostOutput, deadline).front());
  if (output.failure) return *output.failure;
  if (output.is_whole || output.text.size() >= kMostOutput) return std::move(output.text);
  return Error{Errc::timed_out, program_of(words) + " did not answer in " +
                                    std::to_string(limit.count() / 1000) + " s"};
}

}  // namespace ddprun::launcher
