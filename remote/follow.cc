// SPDX-License-Identifier: Apache-2.0
#include "remote/follow.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "remote/order.h"

namespace ddprun::remote {
namespace {

constexpr int kSilence = 60'000;  // milliseconds

/// Exactly `size` bytes. Not more: what follows the order are signals.
Result<std::string> read_exactly(size_t size) {
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    pollfd readable{STDIN_FILENO, POLLIN, 0};
    if (poll(&readable, 1, kSilence) == 0) {
      return Error{Errc::timed_out, "timed out reading the order from stdin"};
    }
    const ssize_t count = read(STDIN_FILENO, bytes.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return os_error("cannot read the order from stdin", errno);
    if (count == 0) return Error{Errc::protocol, "stdin ended before the order was complete"};
    done += static_cast<size_t>(count);
  }
  return bytes;
}

Result<std::string> read_head() {
  std::string line;
  while (line.size() < kLongestHead) {
    const Result<std::string> byte = read_exactly(1);
    if (!byte) return byte.error();
    if (*byte == "\n") break;
    line += *byte;
  }
  return line;
}

Result<Order> read_order() {
  const Result<std::string> head = read_head();
  if (!head) return head.error();
  const Result<size_t> length = decode_head(*head);
  if (!length) return length.error();
  const Result<std::string> body = read_exactly(*length);
  if (!body) return body.error();
  return decode_body(*body);
}

/// stdin, which becomes /dev/null: workers must not read the signals.
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

void say(std::string_view words) {
  const std::string line = log::kMark + std::string(words) + "\n";
  // A reader that is gone needs no answer.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

bool is_remote_agent(std::span<const std::string> words) {
  return words.size() == 1 && words.front() == kAgentFlag;
}

Result<Followed> follow_order() {
  log::mark_lines();
  Result<Order> order = read_order();
  if (!order) return order.error();
  Result<Fd> control = take_stdin();
  if (!control) return control.error();
  if (chdir(order->directory.c_str()) != 0) {
    return Error{
        Errc::usage,
        os_error("cannot enter the directory " + printable(order->directory), errno).message +
            ": ddprun was started there, and every host needs it"};
  }
  setenv("PWD", order->directory.c_str(), 1);
  for (const std::string& variable : order->environment) set_variable(variable);
  return Followed{std::move(order->arguments), std::move(*control)};
}

void say_ready() {
  say(kReady);
}

void say_ended(int code) {
  say(std::string(kEnded) + std::to_string(code));
}

}  // namespace ddprun::remote
