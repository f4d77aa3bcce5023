// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/console_writer.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/blocking_io.h"
#include "base/colour.h"

namespace ddprun::launcher {
namespace {

/// Waking the writing thread costs as much as many lines do, so lines are collected for so long. No
/// reader of a file notices this delay.
constexpr std::chrono::milliseconds kRest{1};

/// If a job still prints so long after its reader (`| head`) has ended, that is reported.
constexpr std::chrono::seconds kUnread{1};

/// Opens a new file description, so that O_NONBLOCK affects no other process. Empty, with errno, on
/// failure.
Fd reopen_non_blocking(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

/// Whether it is /dev/null or the like, to which a write takes no time.
bool is_memory_device(const struct stat& file) {
  return S_ISCHR(file.st_mode) && major(file.st_rdev) == 1;
}

/// Returns 0, or an errno. Blocks.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // another process made it non-blocking
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

ConsoleWriter::ConsoleWriter(boost::asio::any_io_executor executor, int fd, std::string name,
                             Listener listener)
    : executor_(executor),
      name_(std::move(name)),
      listener_(std::move(listener)),
      coloured_(wants_colour(fd)),
      lines_(is_capable_terminal(fd)),
      room_(executor),
      background_(executor),
      rest_(executor) {
  open(fd);
}

void ConsoleWriter::open(int fd) {
  struct stat file{};
  if (fstat(fd, &file) != 0) {  // fd was closed when ddprun started
    discarding_ = true;
    return;
  }
  device_ = file.st_dev;
  inode_ = file.st_ino;

  is_terminal_ = isatty(fd) == 1 || errno == EIO;  // EIO: the terminal is gone
  if (S_ISFIFO(file.st_mode) || is_terminal_) {
    fd_ = std::make_shared<const Fd>(reopen_non_blocking(fd));
    discarding_ = !*fd_ && errno == ENXIO;  // a pipe without a reader
    if (*fd_ && watch_for_room()) kind_ = Kind::non_blocking;
    if (*fd_) return;
  }
  fd_ = std::make_shared<const Fd>(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (S_ISSOCK(file.st_mode) && watch_for_room()) kind_ = Kind::socket;
  if (is_memory_device(file)) kind_ = Kind::memory;
}

// asio sets O_NONBLOCK on every descriptor that it waits for, and fd_ may share its flags with
// other processes. So asio waits for an epoll fd that watches fd_. False: out of descriptors.
bool ConsoleWriter::watch_for_room() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLOUT;
  if (!epoll || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd_->get(), &event) != 0) return false;
  room_.assign(epoll.release());
  return true;
}

bool ConsoleWriter::is_same_file(int fd) const {
  struct stat file{};
  return fd_ && *fd_ && fstat(fd, &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

void ConsoleWriter::flush() {
  if (reader_stopped_) return lines_.clear();
  if (discarding_) report_missing_reader();
  lines_.show_progress();
  if (kind_ == Kind::background && !discarding_) return write_in_background();
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
  if (flush_posted_ || ((waiting_ || resting_) && !reader_stopped_)) return;
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
  if (kind_ != Kind::socket) return ::write(fd_->get(), text.data(), text.size());
  return ::send(fd_->get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ConsoleWriter::write_in_background() {
  if (waiting_ || lines_.empty()) return;
  waiting_ = true;
  background_size_ = lines_.size();
  auto block = std::make_shared<LineQueue::Block>(lines_.take(std::move(spare_)));
  in_line_ = !block->text().ends_with('\n');
  background_.run([fd = fd_, block] { return write_all(fd->get(), block->text()); },
                  [this, block](int error_number) {
                    on_written_in_background(std::move(*block), error_number);
                  });
}

void ConsoleWriter::on_written_in_background(LineQueue::Block block, int error_number) {
  waiting_ = false;
  background_size_ = 0;
  ++writes_;
  spare_ = std::move(block);
  if (error_number != 0) handle_error(error_number);
  if (reader_stopped_) resume();
  lines_.size() >= kFlushAt ? flush() : rest();
  listener_.on_written();
}

void ConsoleWriter::rest() {
  if (std::exchange(resting_, true)) return;
  rest_.expires_after(kRest);
  rest_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    resting_ = false;
    flush();
    listener_.on_written();
  });
}

bool ConsoleWriter::is_missing_reader(int error_number) const {
  const bool terminal_is_gone = is_terminal_ && error_number == EIO;
  return error_number == EPIPE || error_number == ECONNRESET || terminal_is_gone;
}

void ConsoleWriter::handle_error(int error_number) {
  lines_.clear();
  if (is_missing_reader(error_number)) {
    discarding_ = true;  // as with `| head`: not an error
    reader_left_ = Clock::now();
    return;
  }
  if (std::exchange(loss_reported_, true)) return;
  listener_.on_loss(os_error("some output is lost: cannot write to " + name_, error_number).message,
                    true);
}

void ConsoleWriter::consume(size_t written) {
  if (written == 0) return;
  ++writes_;
  in_line_ = lines_.pending()[written - 1] != '\n';
  lines_.consume(written);
}

void ConsoleWriter::drop_if_stalled(bool now) {
  if (!waiting_ || reader_stopped_) return;
  const bool stalled = std::exchange(checked_writes_, writes_) == writes_;
  if (!stalled && !now) return;
  reader_stopped_ = true;
  flush_soon();
}

void ConsoleWriter::stop_discarding() {
  if (reader_stopped_) resume();
}

/// Starts a new line: from now on whole lines come.
void ConsoleWriter::resume() {
  flush();
  reader_stopped_ = false;
  if (in_line_) lines_.append("\n");
  report_loss();
}

void ConsoleWriter::report_loss() {
  listener_.on_loss("some output is lost: " + name_ + " was not read while workers were killed",
                    false);
}

void ConsoleWriter::report_missing_reader() {
  if (loss_reported_ || lines_.empty() || !reader_left_) return;
  if (Clock::now() - *reader_left_ < kUnread) return;
  loss_reported_ = true;
  listener_.on_loss("the reader of " + name_ + " has ended: the job goes on, its output is dropped",
                    false);
}

void ConsoleWriter::finish(std::chrono::milliseconds limit) {
  if (reader_stopped_) {
    resume();
    limit = limit.zero();
  }
  const auto deadline = Clock::now() + limit;
  listener_.on_written = [] {};
  if (kind_ == Kind::background && !discarding_) return finish_in_background(deadline);
  room_.close();  // ends the wait, if any
  waiting_ = false;
  while (!lines_.empty()) {
    const ssize_t written = discarding_ ? static_cast<ssize_t>(lines_.size()) : write_some();
    if (written >= 0) {
      consume(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      if (wait_for(fd_->get(), POLLOUT, deadline) != 0) return lines_.clear();
    } else if (errno != EINTR) {
      return lines_.clear();
    }
  }
}

void ConsoleWriter::finish_in_background(Clock::time_point deadline) {
  do flush();
  while (background_.wait_until_idle(deadline) && !lines_.empty());
  lines_.clear();
}

}  // namespace ddprun::launcher
