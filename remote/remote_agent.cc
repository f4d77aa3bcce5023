// SPDX-License-Identifier: Apache-2.0
#include "remote/remote_agent.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "base/blocking_io.h"
#include "base/log.h"
#include "base/text.h"
#include "remote/launch_order.h"

namespace ddprun::remote {
namespace {

constexpr std::chrono::seconds kSilence{60};

/// Reads exactly `size` bytes: signals follow the order. This process does not handle signals yet,
/// so none interrupts it.
Result<> read_exactly(char* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    const auto deadline = std::chrono::steady_clock::now() + kSilence;
    if (wait_for(STDIN_FILENO, POLLIN, deadline) == ETIMEDOUT) {
      return Error{Errc::timed_out, "timed out reading the order from stdin"};
    }
    const ssize_t count = read(STDIN_FILENO, bytes + done, size - done);
    if (count < 0) return os_error("cannot read the order from stdin", errno);
    if (count == 0) return Error{Errc::protocol, "stdin ended before the order was complete"};
    done += static_cast<size_t>(count);
  }
  return {};
}

Result<std::string> read_text(size_t size) {
  std::string text(size, '\0');
  const Result<> read = read_exactly(text.data(), size);
  if (!read) return read.error();
  return text;
}

Result<Secret> read_secret(size_t size) {
  std::array<char, kLongestSecret> bytes;
  const Result<> read = read_exactly(bytes.data(), size);
  Secret secret(std::string_view(bytes.data(), read ? size : 0));
  explicit_bzero(bytes.data(), bytes.size());
  if (!read) return read.error();
  return secret;
}

Result<std::string> read_head() {
  std::string line;
  while (line.size() < kLongestHead) {
    const Result<std::string> byte = read_text(1);
    if (!byte) return byte.error();
    if (*byte == "\n") break;
    line += *byte;
  }
  return line;
}

struct Received {
  Order order;
  Secret secret;
};

Result<Received> read_order() {
  const Result<std::string> head = read_head();
  if (!head) return head.error();
  const Result<Lengths> lengths = decode_head(*head);
  if (!lengths) return lengths.error();
  const Result<std::string> body = read_text(lengths->order);
  if (!body) return body.error();
  Result<Order> order = decode_body(*body);
  if (!order) return order.error();
  Result<Secret> secret = read_secret(lengths->secret);
  if (!secret) return secret.error();
  return Received{std::move(*order), std::move(*secret)};
}

/// Takes stdin, and replaces it with /dev/null: workers must not read the signals.
Result<Fd> take_stdin() {
  Fd control(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!control) return os_error("cannot duplicate stdin", errno);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null || dup2(null.get(), STDIN_FILENO) < 0) return os_error("cannot open /dev/null", errno);
  return control;
}

void set_variable(const std::string& variable) {
  const size_t equals = variable.find('=');
  if (equals == std::string::npos) return;
  setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
}

/// Removes variables by which a bash believes that sshd started it, so that it reads ~/.bashrc
/// (bash(1), INVOCATION). The login shell has done so. On other hosts a worker's bash does not.
void forget_ssh_client() {
  for (const char* name : {"SSH_CLIENT", "SSH2_CLIENT"}) unsetenv(name);
}

void say(std::string_view words) {
  const std::string line = log::kMark + std::string(words) + "\n";
  // If the reader is gone, it needs no answer.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

bool is_remote_agent(std::span<const std::string> words) {
  return words.size() == 1 && words.front() == kAgentFlag;
}

Result<Followed> follow_order() {
  log::relay_lines();
  Result<Received> received = read_order();
  if (!received) return received.error();
  Order* const order = &received->order;
  Result<Fd> control = take_stdin();
  if (!control) return control.error();
  if (chdir(order->directory.c_str()) != 0) {
    return Error{
        Errc::usage,
        os_error("cannot enter the directory " + printable(order->directory), errno).message +
            ": ddprun was started there, and every host needs it"};
  }
  setenv("PWD", order->directory.c_str(), 1);
  forget_ssh_client();
  for (const std::string& variable : order->environment) set_variable(variable);
  return Followed{std::move(order->arguments), std::move(*control), std::move(received->secret)};
}

void say_ready() {
  say(kReady);
}

void say_ended(int code) {
  say(std::string(kEnded) + std::to_string(code));
}

}  // namespace ddprun::remote
