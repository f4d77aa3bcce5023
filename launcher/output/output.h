// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/console_writer.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/stderr_tail.h"

namespace ddprun::launcher {

/// Passes what the workers of a round print on to ddprun's own stdout and stderr: whole lines,
/// each with its worker's prefix, nothing lost. A slow reader of ddprun slows the workers: their
/// pipes are not read while more than ConsoleWriter::kFull is pending. Never blocks.
///
/// What a stream's StreamSink says goes to files as it is read, unchanged; a full disk is told once
/// and stops nothing.
///
/// Bounded: at most 1 MiB is kept of each stream (its unfinished line), twice if lines are
/// filtered.
///
/// Ignore SIGPIPE before use. Thread: the executor's. Destroy it only when the executor runs no
/// more.
class Output {
 public:
  /// `out` and `err` are the descriptors to write to; they stay the caller's and open. What has to
  /// be told about them (a full disk) goes to log::warning.
  explicit Output(boost::asio::any_io_executor executor, int out = 1, int err = 2);
  Output(const Output&) = delete;
  ~Output();

  /// Reads from the pipes that are the worker's stdout and stderr, from now on. On a terminal the
  /// prefix gets the colour of `rank`. Use Relay::bytes for a worker that is alone and has no
  /// prefix. There is no pipe for a stream whose sink is direct.
  void add_worker(int rank, const std::string& prefix, Relay relay, Fd out, Fd err,
                  StreamSink out_sink = {}, StreamSink err_sink = {});

  /// The end of what `rank` wrote to stderr: at most 20 lines and 4 KiB. Also takes what is still
  /// in its pipe, or what it wrote to a file itself, so it is complete once the worker is dead.
  /// Empty for an unknown rank.
  std::string stderr_tail(int rank);

  /// Tells that no worker is left, nor anything that one has started: the pipes end after what they
  /// hold now. A stranger who was handed one (the server of a terminal multiplexer) could keep it
  /// open for ever.
  void workers_are_gone();

  /// Calls `done` once, later, when all pipes are at their end (no process holds one open any
  /// more, or workers_are_gone) and everything has been written, or discarded because its reader is
  /// gone. With a reader that stopped reading that may be never. A second call replaces the first.
  void when_drained(std::function<void()> done);

  /// For a user who asked twice to stop: what a stopped reader keeps back, and all that follows on
  /// that descriptor, is discarded, so that when_drained comes. A reader that reads loses nothing.
  void give_up_stopped_readers();

  /// Forgets the workers, for a new round. What a still open pipe holds is lost: wait for
  /// when_drained first.
  void remove_workers();

  /// Writes a line of ddprun itself (with its newline) to stderr, in order with the workers'
  /// lines. At most 1 MiB of these waits for a stopped reader; later lines are then dropped, and
  /// their number told.
  void write_own_line(std::string_view line);

  /// The last call before exit: writes what is pending, waiting for the readers for at most
  /// `limit` each. Blocks.
  void finish(std::chrono::milliseconds limit);

 private:
  struct Stream;
  using Streams = std::list<Stream>;

  ConsoleWriter::Listener listener();
  ConsoleWriter& err() { return err_ ? *err_ : out_; }
  void add_stream(int rank, bool is_stderr, const std::string& prefix, Relay relay, Fd pipe,
                  StreamSink sink);
  void wait(Streams::iterator stream);
  void on_readable(Streams::iterator stream);
  size_t read_once(Stream& stream);
  void grow(Stream& stream);
  void pass_on(Stream& stream, std::string_view bytes);
  void append(const LogFile& file, std::string_view bytes);
  void end(Stream& stream);
  void on_written();
  void check_drained();

  boost::asio::any_io_executor executor_;
  ConsoleWriter out_;
  std::optional<ConsoleWriter> err_;  // none when stderr is the same file as stdout
  Streams streams_;
  std::unique_ptr<char[]> batch_;  // one for all: what a read brings is passed on at once
  int big_pipes_ = 0;
  size_t dropped_own_lines_ = 0;
  bool log_loss_told_ = false;
  std::function<void()> done_;
};

}  // namespace ddprun::launcher
