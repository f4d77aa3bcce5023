// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/async_jobs.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/console_writer.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/recent_output.h"
#include "launcher/process/terminal.h"

namespace ddprun::launcher {

struct OutputStream;

/// Passes the output of a round's workers on to ddprun's stdout and stderr, without loss: whole
/// lines, each with its worker's prefix. The beginning of a line is also shown if nothing follows
/// it for a fifth of a second on a terminal, where it may be a prompt, or for 10 s elsewhere. A
/// slow reader of ddprun slows the workers: their pipes are not read while more than
/// ConsoleWriter::kFull is pending. Never blocks.
///
/// Files of a StreamSink get the bytes unchanged, and before the console does, so a file has at
/// least what was seen. A thread writes them. A file on a stalled disk slows the workers that write
/// to it. A full disk is reported once and does not stop the workers.
///
/// Memory: at most 1 MiB per stream (its unfinished line), twice that if lines are filtered, and
/// the bytes on their way to a file: usually 128 KiB.
///
/// Ignore SIGPIPE before use. Thread: the executor's. Destroy it only after the executor has
/// stopped.
class Output {
 public:
  /// Writes to `out` and `err`, which the caller keeps open. Errors, such as a full disk, go to
  /// log::warning.
  explicit Output(boost::asio::any_io_executor executor, int out = 1, int err = 2);
  Output(const Output&) = delete;
  ~Output();

  /// Starts to read the worker's stdout and stderr from these pipes or masters of pseudo-terminals.
  /// On a terminal the prefix has the colour of `rank`. Use Buffering::none for a single worker
  /// without prefix. A stream whose sink is direct has no pipe. Except in files, the output of a
  /// pseudo-terminal is kept without the sequences that control a terminal.
  void add_worker(int rank, const std::string& prefix, Buffering buffering, Fd out, Fd err,
                  StreamSink out_sink = {}, StreamSink err_sink = {});

  /// The window for a worker's pseudo-terminal: that of ddprun's stdout or stderr, less the columns
  /// of `prefix`, so that a line that fits is one line with the prefix. nullopt: ddprun's is no
  /// terminal.
  std::optional<WindowSize> window(bool of_stderr, std::string_view prefix) const;

  /// Whether ddprun's stdout and stderr are the same file.
  bool has_one_console() const { return !err_; }

  /// ddprun's terminal may have another size: passes it on to the workers' pseudo-terminals.
  void window_changed();

  /// Declares this worker to be a ddprun: its own marked lines on stderr (MarkedLines) go to
  /// `taken`. Nothing else of its stderr is shown before show_stderr.
  void take_marked_lines(int rank, std::function<void(std::string_view)> taken);
  void show_stderr(int rank);

  /// Calls `read` with all that workers write through pipes, when it is read.
  void when_read(std::function<void(int rank, bool is_stderr, std::string_view bytes)> read) {
    read_ = std::move(read);
  }

  /// Bytes read from pipes since the beginning.
  std::uint64_t bytes_read() const { return bytes_read_; }

  /// Log files that workers write to themselves.
  std::vector<std::shared_ptr<const LogFile>> direct_files() const;

  /// Whether a worker may have to wait for a reader or a disk.
  bool is_held_up() const;

  /// The end of a worker's stderr: at most 20 lines and 4 KiB.
  struct StderrEnd {
    std::string text;                     ///< the known part
    std::shared_ptr<const LogFile> file;  ///< has it, as the worker writes there; nullptr: `text`

    /// May block; for any thread.
    std::string read() const;
  };

  /// Reads the rest of the worker's pipe, so the text is complete if the worker is dead. Empty for
  /// an unknown rank.
  StderrEnd stderr_end(int rank);

  /// When this worker's last output was read; nullopt: it had none, or it writes to files itself.
  std::optional<std::chrono::steady_clock::time_point> last_output(int rank) const;

  /// This worker's output after its first `from` bytes: at most `most` bytes. Empty for a worker
  /// that writes to files itself.
  RecentOutput::Piece recent_output(int rank, std::uint64_t from, size_t most) const;

  /// Call when no worker or descendant of one is left: a pipe then ends after its current contents.
  /// Another process that got a pipe (such as a terminal multiplexer's server) could keep it open.
  void workers_are_gone();

  /// Calls `done` once, later, when all pipes have ended (no process has one open, or
  /// workers_are_gone) and all output has been written, or discarded because the reader closed.
  /// Never calls it while a reader has stopped reading, or a log file's disk has stalled. A second
  /// call replaces the first.
  void when_drained(std::function<void()> done);

  /// If a reader has stopped reading, or a disk has stalled, discards its pending output and all
  /// that follows until remove_workers, so that when_drained completes: within a second, and within
  /// five if the reader is too slow. Reports the loss. For a user who asked twice to stop.
  void drop_stopped_readers();

  /// Removes the workers, for a new round; a stopped reader slows its workers again. Unread output
  /// in an open pipe is lost: wait for when_drained first.
  void remove_workers();

  /// A sentence: why a write failed, so that output is lost. Empty: no write failed. A reader that
  /// closed is no error.
  const std::string& write_error() const { return write_error_; }

  /// Writes a line of ddprun itself (with its newline) to stderr, in order with the workers' lines.
  /// If the reader has stopped and 1 MiB is pending, drops and counts lines; reports the number
  /// later.
  void write_own_line(std::string_view line);

  /// The last call before exit: writes pending output, and waits at most `limit` per reader, and as
  /// long for the log files. Blocks.
  void finish(std::chrono::milliseconds limit);

 private:
  using Stream = OutputStream;
  /// The end of both streams of a worker.
  struct Recent {
    RecentOutput bytes;
    std::chrono::steady_clock::time_point last;
  };
  using Streams = std::list<Stream>;

  ConsoleWriter::Listener listener();
  Streams::iterator stderr_of(int rank);
  ConsoleWriter& err() { return err_ ? *err_ : out_; }
  void add_stream(int rank, bool is_stderr, const std::string& prefix, Buffering buffering, Fd pipe,
                  StreamSink sink);
  void wait(Streams::iterator stream);
  void on_readable(Streams::iterator stream);
  size_t read_once(Streams::iterator stream);
  void read_rest(Streams::iterator stream);
  void grow(Stream& stream);
  void pass_on(Streams::iterator stream, std::string_view bytes);
  void remember(int rank, std::string_view bytes);
  void show(Stream& stream, std::string_view bytes);
  void save(Streams::iterator stream);
  void on_saved(Streams::iterator stream, std::string_view bytes, const Result<>& saved);
  void end(Streams::iterator stream);
  void finish_line(Stream& stream);
  bool release(Streams::iterator stream);
  std::chrono::milliseconds quiet_time(const Stream& stream) const;
  void show_prompts_by(std::chrono::steady_clock::time_point time);
  void show_prompts();
  void drop_stalled_later();
  void drop_stalled_files();
  void on_written();
  void check_drained();

  boost::asio::any_io_executor executor_;
  std::array<int, 2> terminals_;  // stdout and stderr; -1: not a terminal
  ConsoleWriter out_;
  std::optional<ConsoleWriter> err_;  // empty if stderr is the same file as stdout
  Streams streams_;
  std::unordered_map<int, Recent> recent_;  // by rank
  AsyncJobs files_;                         // writes log files
  int big_pipes_ = 0;
  size_t dropped_own_lines_ = 0;
  bool log_loss_reported_ = false;
  bool files_dropped_ = false;  // when_drained does not wait for these workers' files
  bool dropping_ = false;       // drop_stopped_readers was called
  bool awaits_room_ = false;    // a stream is not read for now: on_written tries again
  std::chrono::steady_clock::time_point drop_by_;
  boost::asio::steady_timer flush_limit_;
  boost::asio::steady_timer quiet_;
  std::chrono::steady_clock::time_point quiet_by_ = std::chrono::steady_clock::time_point::max();
  std::string write_error_;
  std::vector<std::string> losses_;  // not reported yet
  std::function<void()> done_;
  std::function<void(int rank, bool is_stderr, std::string_view bytes)> read_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace ddprun::launcher
