// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/line_queue.h"

namespace ddprun::launcher {

/// Writes lines to ddprun's own stdout or stderr, or both if they are the same file. Never blocks:
/// if writes could block, such as those to a file on a stalled disk, a thread does them. Never
/// changes the flags of the inherited descriptor: the user's shell shares them, and O_NONBLOCK
/// would affect it.
///
/// If the reader has closed, or the terminal or connection is gone, discards all output, and
/// reports this if more output comes. After another error, such as a full disk, discards pending
/// output, and reports the first error.
///
/// Thread: the executor's. Destroy it only after the executor has stopped.
class ConsoleWriter {
 public:
  struct Listener {
    std::function<void()> on_written;  ///< after a write outside of flush()
    /// Called once per cause; `why` is one sentence. `failed`: a write did (such as to a full
    /// disk).
    std::function<void(const std::string& why, bool failed)> on_loss;
  };

  /// Writes to `fd`, which the caller keeps open; `name` is for messages ("stdout").
  ConsoleWriter(boost::asio::any_io_executor executor, int fd, std::string name, Listener listener);
  ConsoleWriter(const ConsoleWriter&) = delete;

  /// Lines appended here are written by the next flush.
  LineQueue& lines() { return lines_; }

  /// Whether more may be appended: less than kFull is pending. If not, wait for on_written.
  bool has_room() const { return lines_.size() + background_size_ < kFull; }

  /// Whether nothing is left to be written, or the reader has stopped and the rest is discarded.
  bool is_drained() const { return lines_.empty() && (background_size_ == 0 || reader_stopped_); }

  /// Whether the reader has stopped, so that appended lines are discarded.
  bool is_discarding() const { return reader_stopped_; }

  /// Whether it is a terminal that shows colours.
  bool is_coloured() const { return coloured_; }

  /// Whether `fd` is the same file, so that both need one ConsoleWriter.
  bool is_same_file(int fd) const;

  /// Writes as much as possible now.
  void flush();

  /// Flushes after the handlers that are ready now, so that they share one write; or, if a write in
  /// the background has just ended, a millisecond later. on_written follows.
  void flush_soon();

  /// If the reader has stopped, or a disk has stalled, discards all output until writes work again;
  /// on_loss reports that. Does so if nothing was written since the last call, or, with `now`, if
  /// any output has to wait. on_written follows.
  void drop_if_stalled(bool now);

  /// Ends that: lines appended from now on wait for the reader again. Reports the loss.
  void stop_discarding();

  /// Writes pending output, waiting for the reader for at most `limit`; discards the rest. Blocks.
  void finish(std::chrono::milliseconds limit);

  static constexpr size_t kFull = 512 * 1024;
  /// Flush when so many bytes are pending: more bytes make a write no cheaper.
  static constexpr size_t kFlushAt = 128 * 1024;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind { memory, non_blocking, socket, background };

  void open(int fd);
  bool watch_for_room();
  void wait_for_room();
  ssize_t write_some();
  void write_in_background();
  void on_written_in_background(LineQueue::Block block, int error_number);
  void rest();
  void finish_in_background(Clock::time_point deadline);
  void consume(size_t written);
  void resume();
  void report_loss();
  void report_missing_reader();
  bool is_missing_reader(int error_number) const;
  void handle_error(int error_number);

  boost::asio::any_io_executor executor_;
  std::string name_;
  Listener listener_;
  Kind kind_ = Kind::background;
  std::shared_ptr<const Fd> fd_;  // a stuck write may need it for longer than we live
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool is_terminal_ = false;
  bool coloured_ = false;
  LineQueue lines_;
  boost::asio::posix::stream_descriptor room_;  // an epoll fd, readable when fd_ is writable
  AsyncJobs background_;
  LineQueue::Block spare_;            // memory for the next write in the background
  size_t background_size_ = 0;        // of the write under way
  size_t writes_ = 0;                 // number of writes that have ended
  size_t checked_writes_ = SIZE_MAX;  // writes_ at the last drop_if_stalled
  boost::asio::steady_timer rest_;
  bool resting_ = false;  // the last write in the background has just ended
  bool waiting_ = false;  // for room_, or for a write in the background
  bool flush_posted_ = false;
  bool discarding_ = false;
  std::optional<Clock::time_point> reader_left_;
  bool reader_stopped_ = false;  // discards until the reader reads again, or stop_discarding
  bool in_line_ = false;         // the last byte written, or on its way, is not a newline
  bool loss_reported_ = false;
};

}  // namespace ddprun::launcher
