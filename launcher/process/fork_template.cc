// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/fork_template.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "launcher/kernel/descendants.h"

namespace ddprun::launcher {
namespace {

constexpr size_t kMostOfLine = 4096;

/// A worker is forked in milliseconds.
constexpr std::chrono::seconds kTimeToFork{1};

Result<Fd> file_with(const std::string& text) {
  Fd file(static_cast<int>(syscall(SYS_memfd_create, "ddprun-worker", 1U /* MFD_CLOEXEC */)));
  if (!file) return os_error("cannot create a file in memory", errno);
  for (size_t at = 0; at < text.size();) {
    const ssize_t size = write(file.get(), text.data() + at, text.size() - at);
    if (size <= 0) return os_error("cannot write to a file in memory", errno);
    at += static_cast<size_t>(size);
  }
  return file;
}

/// With one byte; without descriptors the byte alone.
Result<> send_descriptors(int socket, std::span<const int> descriptors) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) return {};
  return os_error("cannot ask the process of --preload for a worker", errno);
}

bool is_own_child(const Fd& pidfd) {
  siginfo_t info = {};
  return waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

ForkTemplate::ForkTemplate(boost::asio::any_io_executor executor, Hooks hooks)
    : executor_(std::move(executor)),
      hooks_(std::move(hooks)),
      line_(executor_),
      output_(executor_),
      limit_(executor_) {}

ForkTemplate::~ForkTemplate() {
  if (is_running()) set_own_child(0);
}

Result<> ForkTemplate::start(Command command) {
  int line[2], output[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) {
    return os_error("cannot create a socket", errno);
  }
  line_.assign(line[0]);
  const Fd its_line(line[1]);
  const Result<Fd> request = file_with(fork_request(command));
  if (!request) return request.error();
  const std::array<int, 1> descriptors = {request->get()};
  if (Result<> sent = send_descriptors(line[0], descriptors); !sent) return sent;
  if (pipe2(output, O_CLOEXEC) != 0) return os_error("cannot create a pipe", errno);
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  output_.assign(output[0]);
  const Fd its_output(output[1]);
  command.stdin_fd = its_line.get();
  command.stdout_fd = command.stderr_fd = its_output.get();
  std::vector<Command> commands;
  commands.push_back(std::move(command));
  Spawned spawned = spawn(std::move(commands));
  batch_ = std::move(spawned.batch);
  if (spawned.failure) return *spawned.failure;
  worker_.emplace(executor_, spawned.children.front());
  set_own_child(worker_->pid());
  worker_->when_ended([this](ExitStatus status) { on_ended(status); });
  read_line();
  read_output();
  return {};
}

void ForkTemplate::read_line() {
  line_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   [this](boost::system::error_code cancelled) {
                     if (cancelled || !line_.is_open()) return;
                     take_messages();
                     if (line_.is_open()) read_line();
                   });
}

void ForkTemplate::break_line() {
  line_.close();
  kill();
}

/// Its end, or what is no message, is the end of the template.
void ForkTemplate::take_messages() {
  std::string bytes(kMaxTemplateMessage, '\0');
  while (line_.is_open()) {
    const ssize_t size =
        recv(line_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return break_line();
    const bool is_cut = static_cast<size_t>(size) > bytes.size();
    on_message(std::string_view(bytes.data(), is_cut ? 0 : static_cast<size_t>(size)));
  }
}

void ForkTemplate::on_message(std::string_view bytes) {
  using Kind = TemplateMessage::Kind;
  const auto message = parse_template_message(bytes);
  const bool answers = message && message->kind >= Kind::started;
  if (!message || answers != is_forking()) return break_line();
  if (!answers) return hooks_.import_ended(*message);
  if (message->kind == Kind::done) return on_done();
  if (message->kind == Kind::started) {
    take_worker(message->pid);
  } else {
    failure_ = Error{Errc::system, "cannot create a process for a worker: " + message->text};
  }
  request_next();
}

void ForkTemplate::take_worker(pid_t pid) {
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  Fd second(fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!second) failure_ = os_error("cannot open a process of a worker", errno);
  if (failure_) return;
  forked_.children.push_back({pid, std::move(pidfd), std::move(second),
                              std::move(next_output_.read_out), std::move(next_output_.read_err),
                              std::move(next_output_.no_terminal)});
}

void ForkTemplate::on_done() {
  const bool are_own = std::ranges::all_of(
      forked_.children, [](const Child& child) { return is_own_child(child.pidfd); });
  if (!are_own) return break_line();
  finish(std::move(failure_));
}

void ForkTemplate::on_ended(ExitStatus status) {
  set_own_child(0);
  take_messages();
  take_output();
  if (!printed_.empty()) hooks_.printed(std::exchange(printed_, ""));
  line_.close();
  output_.close();
  hooks_.ended(status, batch_->exec_failure(0));
  if (!is_forking()) return;
  finish(Error{Errc::system, "the process of --preload ended (" + status.text() +
                                 ") while it forked the workers"});
}

void ForkTemplate::read_output() {
  output_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [this](boost::system::error_code cancelled) {
                       if (cancelled || !output_.is_open()) return;
                       if (take_output()) read_output();
                     });
}

/// Reads what the pipe holds. Returns whether more may come.
bool ForkTemplate::take_output() {
  std::array<char, 64UL * 1024> bytes;
  const ssize_t size = read(output_.native_handle(), bytes.data(), bytes.size());
  if (size <= 0) return size < 0 && (errno == EAGAIN || errno == EINTR);
  for (const char each : std::string_view(bytes.data(), static_cast<size_t>(size))) {
    if (each != '\n') printed_ += each;
    if (each == '\n' || printed_.size() == kMostOfLine) {
      hooks_.printed(std::exchange(printed_, ""));
    }
  }
  return true;
}

void ForkTemplate::fork(std::vector<Command> commands, std::function<void(Forked)> done) {
  commands_ = std::move(commands);
  done_ = std::move(done);
  forked_ = {};
  failure_.reset();
  stopping_ = false;
  request_next();
}

void ForkTemplate::request_next() {
  const size_t at = forked_.children.size();
  const bool is_last = at == commands_.size() || stopping_ || failure_;
  const Result<> sent =
      is_last ? send_descriptors(line_.native_handle(), {}) : send_request(commands_[at]);
  if (sent) return;
  if (!failure_) failure_ = sent.error();
  if (!is_last) return request_next();
  break_line();  // its end follows
}

Result<> ForkTemplate::send_request(const Command& command) {
  const size_t missing = commands_.size() - forked_.children.size();
  Result<OutputEnds> output = open_output(command, missing, commands_.size());
  if (!output) return output.error();
  const Result<Fd> request = file_with(fork_request(command));
  if (!request) return request.error();
  next_output_ = std::move(*output);
  const std::array<int, 4> descriptors = {request->get(), command.stdin_fd, next_output_.out,
                                          next_output_.err};
  const Result<> sent = send_descriptors(line_.native_handle(), descriptors);
  next_output_.of_child = {};  // they are on their way
  return sent;
}

void ForkTemplate::finish(std::optional<Error> failure) {
  limit_.cancel();
  commands_.clear();
  next_output_ = {};
  forked_.failure = std::move(failure);
  std::exchange(done_, nullptr)(std::move(forked_));
}

void ForkTemplate::stop_forking() {
  if (!is_forking() || std::exchange(stopping_, true)) return;
  limit_.expires_after(kTimeToFork);
  limit_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled && is_forking()) kill();
  });
}

void ForkTemplate::kill() {
  if (worker_) worker_->signal_group(SIGKILL);
}

}  // namespace ddprun::launcher
