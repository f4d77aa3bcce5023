// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/line_queue.h"

namespace ddprun::launcher {

/// Where lines leave ddprun: its own stdout or stderr, or both when they are the same file.
/// Writing never blocks, whatever its reader does, and never changes the flags of the inherited
/// descriptor (O_NONBLOCK would be seen by the user's shell, which shares them). Only a regular
/// file or a device without flow control is written to directly.
///
/// A reader that is gone (EPIPE): everything is discarded from then on. Any other error, such as a
/// full disk: what is pending is discarded and the error told once.
///
/// Thread: the executor's. Destroy it only when the executor runs no more.
class ConsoleWriter {
 public:
  struct Listener {
    std::function<void()> on_written;                     ///< some pending bytes went out later
    std::function<void(const std::string& why)> on_loss;  ///< once for each cause; `why` is one sentence
  };

  /// Writes to `fd`, which stays the caller's and open; `name` is for messages ("stdout").
  ConsoleWriter(boost::asio::any_io_executor executor, int fd, std::string name, Listener listener);
  ConsoleWriter(const ConsoleWriter&) = delete;

  /// Lines appended here go out with the next flush.
  LineQueue& lines() { return lines_; }

  /// Whether more may be appended: less than kFull is pending. Else wait for on_written.
  bool has_room() const { return lines_.size() < kFull; }

  /// A terminal that shows colours.
  bool is_coloured() const { return coloured_; }

  /// Whether `fd` is the same file as this one, so that both must go through one ConsoleWriter.
  bool is_same_file(int fd) const;

  /// Writes what can be written now.
  void flush();

  /// Flushes when the handlers that are ready now have run, so that they share one write.
  void flush_soon();

  /// Workers must end now: if the reader has stopped, everything is discarded until it reads again,
  /// which on_loss reports. on_written follows.
  void give_up_stopped_reader();

  /// Writes what is pending, waiting for the reader for at most `limit`; the rest is discarded.
  void finish(std::chrono::milliseconds limit);

  static constexpr size_t kFull = 256 * 1024;

 private:
  enum class Kind { direct, non_blocking, socket, polled };

  void open(int fd);
  void watch_for_room();
  void wait_for_room();
  ssize_t write_some();
  ssize_t write_if_polled_ready();
  void consume(size_t written);
  void resume();
  void lose(int error_number);

  boost::asio::any_io_executor executor_;
  std::string name_;
  Listener listener_;
  Kind kind_ = Kind::direct;
  Fd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool coloured_ = false;
  LineQueue lines_;
  boost::asio::posix::stream_descriptor room_;  // an epoll that is readable when fd_ is writable
  bool waiting_ = false;                        // for room_
  bool flush_posted_ = false;
  bool discarding_ = false;
  bool reader_stopped_ = false;  // and nobody waits for it: discards until it reads
  bool in_line_ = false;         // what was written last has no newline yet
  bool loss_told_ = false;
};

}  // namespace ddprun::launcher
