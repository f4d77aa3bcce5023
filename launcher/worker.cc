// SPDX-License-Identifier: Apache-2.0
#include "launcher/worker.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/close_range.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"

namespace ddprun::launcher {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

std::optional<rlimit> original_open_files;

/// Asio opens its sockets without close-on-exec, so everything above stderr is marked here.
void close_all_on_exec() {
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < 1024; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);  // before Linux 5.11
}

/// Runs in the child between fork and exec: system calls only. Returns the errno of what failed.
int become(const Command& command, char* const* argv, char* const* env, pid_t parent) {
  setsid();                                // a session of its own: one kill reaches all it forks
  prctl(PR_SET_PDEATHSIG, SIGKILL);        // the agent must not leave orphans
  if (getppid() != parent) return ECHILD;  // it died before prctl took effect
  const int fds[] = {command.stdin_fd, command.stdout_fd, command.stderr_fd};
  for (int target = 0; target < 3; ++target) {
    if (fds[target] == target) {
      fcntl(target, F_SETFD, 0);  // dup2 to itself would leave close-on-exec set
    } else if (dup2(fds[target], target) < 0) {
      return errno;
    }
  }
  close_all_on_exec();
  if (original_open_files) setrlimit(RLIMIT_NOFILE, &*original_open_files);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;  // ignored signals survive exec
  sigaction(SIGPIPE, &standard, nullptr);
  sigaction(SIGTTOU, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // so do blocked ones
  execve(command.program.c_str(), argv, env);
  return errno;
}

/// A pipe that closes by itself when exec works; else it brings the errno of the failure.
struct ExecPipe {
  Fd read_end;
  Fd write_end;
};

Result<ExecPipe> open_exec_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return os_error("cannot make a pipe", errno);
  return ExecPipe{Fd(ends[0]), Fd(ends[1])};
}

/// Boost.Process's launchers wait for each child's exec before they go on, which makes a start as
/// slow as the scheduler is late, once for each worker (and its vfork launcher tells the io_context
/// of the fork in memory that the child still shares). So the process is made here, nobody waits,
/// and Boost.Process sees to its end.
Result<pid_t> fork_exec(const Command& command, const Fd& exec_failed) {
  const std::vector<char*> argv = pointers(command.arguments);
  const std::vector<char*> env = pointers(command.environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return os_error("cannot make a process for " + command.program, errno);
  if (child > 0) return child;
  const int failure = become(command, argv.data(), env.data(), parent);
  [[maybe_unused]] const ssize_t told = write(exec_failed.get(), &failure, sizeof failure);
  _exit(127);
}

Error exec_error(const std::string& program, int failure) {
  Error error = os_error("cannot execute " + program, failure);
  if (failure == ENOENT && access(program.c_str(), F_OK) == 0) {
    error.message += " (it is there; the interpreter it names is not)";
  }
  if (failure == ENOEXEC) error.message += " (a script needs a first line such as #!/bin/sh)";
  error.code = Errc::not_executable;
  return error;
}

}  // namespace

void raise_open_files_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  original_open_files = limit;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Worker> Worker::spawn(boost::asio::any_io_executor executor, const Command& command) {
  Result<ExecPipe> pipe = open_exec_pipe();
  if (!pipe) return pipe.error();
  const Result<pid_t> child = fork_exec(command, pipe->write_end);
  if (!child) return child.error();
  return Worker(Process(std::move(executor), *child), command.program, std::move(pipe->read_end));
}

Worker::Worker(Process process, std::string program, Fd exec_failure)
    : process_(std::move(process)),
      pid_(process_.id()),
      program_(std::move(program)),
      exec_failure_(std::move(exec_failure)) {}

std::optional<Error> Worker::exec_failure() const {
  int failure = 0;
  if (read(exec_failure_.get(), &failure, sizeof failure) != sizeof failure) return std::nullopt;
  return exec_error(program_, failure);
}

Worker::~Worker() {
  if (process_.is_open()) signal_group(SIGKILL);  // ~Process reaps, but kills the child alone
}

void Worker::when_ended(std::function<void(ExitStatus)> ended) {
  process_.async_wait([this, ended = std::move(ended)](boost::system::error_code error, int) {
    if (error) return;  // only when the process handle was closed before
    running_ = false;
    ended(ExitStatus(process_.native_exit_code()));
  });
}

void Worker::signal_group(int signal) {
  if (!running_) return;
  // A child that has not come to setsid yet is alone, and has the signal blocked until exec.
  if (kill(-pid_, signal) != 0) kill(pid_, signal);
}

void Worker::signal_leader(int signal) {
  if (running_) kill(pid_, signal);
}

}  // namespace ddprun::launcher
