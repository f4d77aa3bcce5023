// SPDX-License-Identifier: Apache-2.0
#include "launcher/spawn.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

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

/// A command as execve wants it. Made before the first fork: between two forks nothing writes to
/// memory that need not, for each page written costs a fault and a copy.
struct Image {
  explicit Image(const Command& command)
      : program(command.program.c_str()),
        argv(pointers(command.arguments)),
        environment(pointers(command.environment)),
        stdin_fd(command.stdin_fd) {}

  const char* program;
  std::vector<char*> argv;
  std::vector<char*> environment;
  int stdin_fd;
};

/// What a child that cannot become its program writes into the pipe of ExecFailures.
struct ExecFailure {
  pid_t pid;
  int error_number;
};

/// Runs in the child between fork and exec: system calls only. Returns the errno of what failed.
int become(const Image& image, int out, int err, pid_t parent) {
  setsid();                                // a session of its own: one kill reaches all it forks
  prctl(PR_SET_PDEATHSIG, SIGKILL);        // the agent must not leave orphans
  if (getppid() != parent) return ECHILD;  // it died before prctl took effect
  if (image.stdin_fd == STDIN_FILENO) {
    fcntl(STDIN_FILENO, F_SETFD, 0);  // dup2 to itself would leave close-on-exec set
  } else if (dup2(image.stdin_fd, STDIN_FILENO) < 0) {
    return errno;
  }
  if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) return errno;
  close_all_on_exec();
  if (original_open_files) setrlimit(RLIMIT_NOFILE, &*original_open_files);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;  // ignored signals survive exec
  sigaction(SIGPIPE, &standard, nullptr);
  sigaction(SIGTTOU, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);  // so do blocked ones
  execve(image.program, image.argv.data(), image.environment.data());
  return errno;
}

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return os_error("cannot make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<Child> start(const Image& image, const Fd& exec_failures) {
  Result<Pipe> out = make_pipe();
  if (!out) return out.error();
  Result<Pipe> err = make_pipe();
  if (!err) return err.error();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return os_error(std::string("cannot make a process for ") + image.program, errno);
  if (pid > 0) return Child{pid, std::move(out->read_end), std::move(err->read_end)};

  const int error_number = become(image, out->write_end.get(), err->write_end.get(), parent);
  const ExecFailure failure = {getpid(), error_number};
  [[maybe_unused]] const ssize_t told = write(exec_failures.get(), &failure, sizeof failure);
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

std::optional<Error> ExecFailures::of(pid_t pid, const std::string& program) {
  ExecFailure failure;
  while (read(pipe_.get(), &failure, sizeof failure) == sizeof failure) {
    errnos_[failure.pid] = failure.error_number;
  }
  const auto found = errnos_.find(pid);
  if (found == errnos_.end()) return std::nullopt;
  return exec_error(program, found->second);
}

/// Boost.Process's launchers wait for each child's exec before they go on, which makes a start as
/// slow as the scheduler is late, once for each worker; and its vfork launcher tells the io_context
/// of the fork in memory that the child still shares. So the processes are made here.
Spawned spawn(const std::vector<Command>& commands) {
  Spawned spawned;
  Result<Pipe> failures = make_pipe();
  if (!failures) {
    spawned.failure = failures.error();
    return spawned;
  }
  fcntl(failures->read_end.get(), F_SETFL, O_NONBLOCK);
  const std::vector<Image> images(commands.begin(), commands.end());
  spawned.children.reserve(images.size());
  for (const Image& image : images) {
    Result<Child> child = start(image, failures->write_end);
    if (!child) {
      spawned.failure = child.error();
      break;
    }
    spawned.children.push_back(std::move(*child));
  }
  spawned.exec_failures = ExecFailures(std::move(failures->read_end));
  return spawned;
}

void raise_open_files_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  original_open_files = limit;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace ddprun::launcher
