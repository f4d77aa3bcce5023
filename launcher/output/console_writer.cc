// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/console_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

namespace ddprun::launcher {
namespace {

bool is_capable_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

bool wants_colour(int fd) {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
  return is_capable_terminal(fd) && (no_color == nullptr || *no_color == '\0');
}

/// A new open file description, so that O_NONBLOCK affects no other process; empty, with errno, on
/// failure.
Fd reopen_non_blocking(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

}  // namespace

ConsoleWriter::ConsoleWriter(boost::asio::any_io_executor executor, int fd, std::string name,
                             Listener listener)
    : executor_(executor),
      name_(std::move(name)),
      listener_(std::move(listener)),
      coloured_(wants_colour(fd)),
      lines_(is_capable_terminal(fd)),
      room_(executor) {
  open(fd);
}

void ConsoleWriter::open(int fd) {
  struct stat file{};
  if (fstat(fd, &file) != 0) {  // started with it closed
    discarding_ = true;
    return;
  }
  device_ = file.st_dev;
  inode_ = file.st_ino;

  const bool flow_controlled = S_ISFIFO(file.st_mode) || isatty(fd) == 1;
  if (flow_controlled) {
    kind_ = Kind::non_blocking;
    fd_ = reopen_non_blocking(fd);
    if (fd_) return watch_for_room();
    discarding_ = errno == ENXIO;  // a pipe without a reader
  }
  fd_.reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (S_ISSOCK(file.st_mode)) kind_ = Kind::socket;
  if (flow_controlled) kind_ = Kind::polled;  // no permission, or no /proc
  if (kind_ != Kind::direct) watch_for_room();
}

// asio sets O_NONBLOCK on every descriptor it waits for, and fd_ may share its flags with other
// processes. So asio waits for an epoll fd that watches fd_.
void ConsoleWriter::watch_for_room() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLOUT;
  if (!epoll || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd_.get(), &event) != 0) {
    kind_ = Kind::direct;  // out of descriptors: a blocking write is better than none
    return;
  }
  room_.assign(epoll.release());
}

bool ConsoleWriter::is_same_file(int fd) const {
  struct stat file{};
  return fd_ && fstat(fd, &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

void ConsoleWriter::flush() {
  if (reader_stopped_) return lines_.clear();
  while (!lines_.empty() && !waiting_) {
    const ssize_t written = discarding_ ? static_cast<ssize_t>(lines_.size()) : write_some();
    if (written >= 0) {
      consume(static_cast<size_t>(written));
    } else if (errno == EAGAIN && room_.is_open()) {
      wait_for_room();
    } else if (errno != EINTR) {
      handle_error(errno);
    }
  }
}

void ConsoleWriter::flush_soon() {
  if (flush_posted_ || (waiting_ && !reader_stopped_)) return;
  flush_posted_ = true;
  boost::asio::post(executor_, [this] {
    flush_posted_ = false;
    flush();
    listener_.on_written();
  });
}

void ConsoleWriter::wait_for_room() {
  waiting_ = true;
  room_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& error) {
                     if (error == boost::asio::error::operation_aborted) return;
                     waiting_ = false;
                     if (reader_stopped_) resume();
                     flush();
                     listener_.on_written();
                   });
}

ssize_t ConsoleWriter::write_some() {
  const std::string_view text = lines_.pending();
  switch (kind_) {
    case Kind::direct:
    case Kind::non_blocking:
      return ::write(fd_.get(), text.data(), text.size());
    case Kind::socket:
      return ::send(fd_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Kind::polled:
      return write_if_polled_ready();
  }
  std::abort();
}

// If poll(2) reports a pipe writable, PIPE_BUF bytes can be written without blocking.
ssize_t ConsoleWriter::write_if_polled_ready() {
  pollfd ready{fd_.get(), POLLOUT, 0};
  const int count = ::poll(&ready, 1, 0);
  if (count < 0) return -1;
  if (count == 0) {
    errno = EAGAIN;
    return -1;
  }
  const std::string_view text = lines_.pending();
  return ::write(fd_.get(), text.data(), std::min<size_t>(text.size(), PIPE_BUF));
}

void ConsoleWriter::handle_error(int error_number) {
  lines_.clear();
  if (error_number == EPIPE) {
    discarding_ = true;  // as with `| head`: not an error
    return;
  }
  if (std::exchange(loss_reported_, true)) return;
  listener_.on_loss(
      os_error("some output is lost: cannot write to " + name_, error_number).message);
}

void ConsoleWriter::consume(size_t written) {
  if (written == 0) return;
  in_line_ = lines_.pending()[written - 1] != '\n';
  lines_.consume(written);
}

void ConsoleWriter::drop_stopped_reader() {
  if (!waiting_) return;
  reader_stopped_ = true;
  flush_soon();
}

/// The reader reads again: what comes from now on is whole lines.
void ConsoleWriter::resume() {
  flush();
  reader_stopped_ = false;
  if (in_line_) lines_.append("\n");
  listener_.on_loss("some output is lost: " + name_ + " was not read while workers were killed");
}

void ConsoleWriter::finish(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  room_.close();  // ends the wait, if any
  waiting_ = false;
  if (reader_stopped_) limit = limit.zero();
  const auto deadline = Clock::now() + limit;
  while (!lines_.empty()) {
    const ssize_t written = discarding_ ? static_cast<ssize_t>(lines_.size()) : write_some();
    if (written >= 0) {
      consume(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) return lines_.clear();
      pollfd ready{fd_.get(), POLLOUT, 0};
      ::poll(&ready, 1, static_cast<int>(left.count()));
    } else if (errno != EINTR) {
      return lines_.clear();
    }
  }
}

}  // namespace ddprun::launcher
