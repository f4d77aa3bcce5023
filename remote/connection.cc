// SPDX-License-Identifier: Apache-2.0
#include "remote/connection.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <boost/asio/write.hpp>

namespace ddprun::remote {
namespace {

/// With so many unsent bytes, signs of life are left out: an unreachable host reads none.
constexpr size_t kEnough = 1024;

launcher::Command command_of(const HostSpec& host, int stdin_fd) {
  launcher::Command command;
  command.program = host.program;
  command.arguments = host.starter;
  command.environment = launcher::own_environment();
  command.stdin_fd = stdin_fd;
  return command;
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const boost::asio::any_io_executor& executor,
                                                     const HostSpec& host,
                                                     std::shared_ptr<const Secret> secret) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return os_error("cannot create a pipe", errno);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
  launcher::Spawned spawned = launcher::spawn({command_of(host, read_end.get())});
  if (spawned.failure) return *spawned.failure;
  auto connection =
      std::make_unique<Connection>(executor, std::move(spawned), std::move(write_end));
  const size_t secret_length = secret ? secret->view().size() : 0;
  connection->send_order(encode(host.order, secret_length), std::move(secret));
  return connection;
}

Connection::Connection(const boost::asio::any_io_executor& executor, launcher::Spawned spawned,
                       Fd input)
    : batch_(std::move(spawned.batch)),
      out_(std::move(spawned.children.front().out)),
      err_(std::move(spawned.children.front().err)),
      worker_(executor, spawned.children.front()),
      input_(executor, input.release()) {}

/// Writes the secret from where it is, so that nothing keeps a copy of it.
void Connection::send_order(std::string order, std::shared_ptr<const Secret> secret) {
  sending_ = std::move(order);
  const std::string_view text = secret ? secret->view() : std::string_view();
  const std::array<boost::asio::const_buffer, 2> both = {boost::asio::buffer(sending_),
                                                         boost::asio::buffer(text)};
  boost::asio::async_write(
      input_, both, [this, secret = std::move(secret)](boost::system::error_code failed, size_t) {
        on_written(failed);
      });
}

void Connection::when_ended(std::function<void(launcher::ExitStatus)> ended) {
  worker_.when_ended([this, ended = std::move(ended)](launcher::ExitStatus status) {
    // Processes left on the host end when the input ends. Their output about that must not count as
    // the agent's last output.
    ended(status);
    boost::system::error_code ignored;
    input_.close(ignored);
  });
}

void Connection::send(int signal) {
  if (!input_.is_open() || (signal == 0 && unsent_.size() > kEnough)) return;
  unsent_ += static_cast<char>(signal);
  write();
}

void Connection::write() {
  if (!sending_.empty() || unsent_.empty()) return;
  sending_ = std::exchange(unsent_, {});
  boost::asio::async_write(
      input_, boost::asio::buffer(sending_),
      [this](boost::system::error_code failed, size_t) { on_written(failed); });
}

void Connection::on_written(boost::system::error_code failed) {
  if (failed == boost::asio::error::operation_aborted) return;
  sending_.clear();
  if (!failed) return write();
  input_.close(failed);  // its reader is gone: the process ends, too
}

void Connection::kill() {
  worker_.signal_group(SIGKILL);
}

}  // namespace ddprun::remote
