// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/log.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/console_writer.h"
#include "launcher/output/line_queue.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/prefix.h"
#include "launcher/output/recent_output.h"

namespace ddprun::launcher {

/// One stream of a worker: its source, its destinations, and its state.
struct OutputStream {
  /// Bytes that have been read, on their way to the files of its sink.
  struct Unsaved {
    std::string bytes;
    std::string lines;  // selected by the filters, with their prefix

    bool empty() const { return bytes.empty() && lines.empty(); }

    /// Blocks. Errors: system (the first error).
    Result<> append_to(const LogFile* file, const LogFile* duplicates) const {
      Result<> saved = file != nullptr ? file->append(bytes) : Result<>();
      if (duplicates == nullptr) return saved;
      const Result<> duplicated = duplicates->append(lines);
      return saved ? duplicated : saved;
    }
  };

  /// The most bytes that one read takes.
  static constexpr size_t kBatch = 128 * 1024;

  /// The beginning of a line is no prompt if stdio's or Python's buffer size, or more, came before
  /// it: then the rest of the line is still in the worker's buffer, and lines would be cut wherever
  /// such a buffer ends.
  static constexpr size_t kBufferSize = 4096;

  OutputStream(boost::asio::any_io_executor executor, int worker_rank, bool of_stderr,
               std::string prefix, Buffering buffering, ConsoleWriter& writer,
               StreamSink stream_sink)
      : pipe(executor),
        rank(worker_rank),
        is_stderr(of_stderr),
        splitter(std::move(prefix), buffering),
        console(writer),
        sink(std::move(stream_sink)) {}

  /// A stream that is not shown does not wait for the console's reader.
  bool may_be_read() const {
    return pipe.is_open() && !saving && (!sink.shown || console.has_room());
  }

  bool may_show_prompt() const { return splitter.keeps_text() && burst < kBufferSize; }

  bool is_read_to_its_end() {
    int unread = 0;
    return may_be_read() && ioctl(pipe.native_handle(), FIONREAD, &unread) == 0 && unread == 0;
  }

  bool has_files() const { return sink.file || sink.duplicates; }

  /// The size of a read; a longer prefix makes it smaller, because prefixes lengthen short lines.
  size_t batch_size() const {
    const size_t size = 4 * kBatch / (splitter.prefix().size() + 1);
    return std::clamp<size_t>(size, 4096, kBatch);
  }

  boost::asio::posix::stream_descriptor pipe;  // closed at its end, or never opened
  int rank;
  bool is_stderr;
  std::optional<EscapeFilter> escapes;  // set for a pseudo-terminal
  LineSplitter splitter;
  StderrTail stderr_tail;
  ConsoleWriter& console;
  StreamSink sink;
  std::optional<LineFilter> filter;  // set with sink.duplicates
  MarkedLines marked;
  std::function<void(std::string_view)> take_marked;  // empty: it has no marked lines
  Unsaved unsaved;
  std::chrono::steady_clock::time_point last_shown;
  size_t burst = 0;        // bytes since it was last quiet
  size_t left = SIZE_MAX;  // bytes until its end, if known
  bool ends_when_empty = false;
  bool waiting = false;            // a handler holds an iterator to this
  bool saving = false;             // a job holds an iterator to this
  size_t saves = 0;                // jobs that have ended
  size_t checked_save = SIZE_MAX;  // `saves` at the last drop_stalled_files
  bool removed = false;
  bool grown = false;
};

namespace {

constexpr size_t kOwnLimit = 1024 * 1024;  // pending bytes beyond which own lines are dropped

/// While workers are killed, a reader or a disk is given up if it takes nothing for the first of
/// these times, or still has to take output after the second.
constexpr std::chrono::milliseconds kFlushLimit{500};
constexpr std::chrono::milliseconds kFlushAllLimit{5'000};

/// The beginning of a line is shown if nothing follows it for so long. On a terminal it may be a
/// prompt. In a file or a pipe nobody answers; it is only the last output of a hanging worker.
constexpr std::chrono::milliseconds kQuietOnTerminal{200};
constexpr std::chrono::seconds kQuietElsewhere{10};

// A big pipe saves context switches but uses memory. All pipes of a user share one budget (64 MiB
// by default); beyond it, new pipes have one page. So only a few pipes grow, each after a large
// read.
constexpr int kBigPipe = 1024 * 1024;
constexpr int kMaxBigPipes = 16;
constexpr size_t kLargeRead = 32 * 1024;  // half of a pipe's default size (pipe(7))

/// More than the kernel buffers of a pseudo-terminal's output.
constexpr size_t kMostInTerminal = 64 * 1024;

}  // namespace

Output::Output(boost::asio::any_io_executor executor, int out, int err)
    : executor_(executor),
      terminals_{isatty(out) == 1 ? out : -1, isatty(err) == 1 ? err : -1},
      out_(executor, out, "stdout", listener()),
      files_(executor),
      flush_limit_(executor),
      quiet_(executor) {
  if (!out_.is_same_file(err)) err_.emplace(executor, err, "stderr", listener());
  if (log::are_lines_relayed()) this->err().lines().escape_marks();
}

Output::~Output() = default;

ConsoleWriter::Listener Output::listener() {
  return {.on_written = [this] { on_written(); },
          .on_loss =
              [this](const std::string& why, bool failed) {
                if (failed) write_error_ = why;
                losses_.push_back(why);
                if (err().is_discarding()) return;  // the report, too
                for (const std::string& loss : std::exchange(losses_, {})) log::warning(loss);
              }};
}

void Output::add_worker(int rank, const std::string& prefix, Buffering buffering, Fd out, Fd err,
                        StreamSink out_sink, StreamSink err_sink) {
  add_stream(rank, false, prefix, buffering, std::move(out), std::move(out_sink));
  add_stream(rank, true, prefix, buffering, std::move(err), std::move(err_sink));
}

void Output::add_stream(int rank, bool is_stderr, const std::string& prefix, Buffering buffering,
                        Fd pipe, StreamSink sink) {
  ConsoleWriter& console = is_stderr ? this->err() : out_;
  Stream& stream = streams_.emplace_back(
      executor_, rank, is_stderr, console.is_coloured() ? coloured_prefix(prefix, rank) : prefix,
      buffering, console, std::move(sink));
  if (!pipe) return;
  if (stream.sink.duplicates) stream.filter.emplace(prefix, *stream.sink.filters);
  if (isatty(pipe.get()) == 1) stream.escapes.emplace();
  fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  stream.pipe.assign(pipe.release());
  wait(std::prev(streams_.end()));
}

void Output::wait(Streams::iterator stream) {
  if (stream->waiting) return;
  if (!stream->may_be_read()) {
    awaits_room_ |= stream->pipe.is_open();
    return;
  }
  if (stream->ends_when_empty) return read_rest(stream);
  stream->waiting = true;
  stream->pipe.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [this, stream](const boost::system::error_code&) {
                            stream->waiting = false;
                            if (!release(stream)) on_readable(stream);
                          });
}

/// Erases a removed stream if nothing refers to it any more. Returns whether it was removed.
bool Output::release(Streams::iterator stream) {
  const bool removed = stream->removed;
  if (removed && !stream->waiting && !stream->saving) streams_.erase(stream);
  return removed;
}

void Output::on_readable(Streams::iterator stream) {
  ConsoleWriter& console = stream->console;
  if (stream->may_be_read()) read_once(stream);
  console.lines().size() >= ConsoleWriter::kFlushAt ? console.flush() : console.flush_soon();
  wait(stream);
}

/// Returns the number of bytes read; 0: none now. Ends the stream at end of file.
size_t Output::read_once(Streams::iterator stream) {
  // Shared by all streams, as each read is passed on at once. The heap would map it each time.
  static constinit std::array<char, Stream::kBatch> batch{};
  const size_t most = stream->batch_size();
  const ssize_t count =
      ::read(stream->pipe.native_handle(), batch.data(), std::min(most, stream->left));
  if (count > 0) {
    const std::string_view bytes(batch.data(), static_cast<size_t>(count));
    if (bytes.size() >= std::min(most, kLargeRead)) grow(*stream);
    pass_on(stream, bytes);
    stream->left -= bytes.size();
    if (stream->left == 0) end(stream);
    return bytes.size();
  }
  const bool may_come = count < 0 && (errno == EAGAIN || errno == EINTR);
  if (!may_come || stream->ends_when_empty) end(stream);
  return 0;
}

void Output::read_rest(Streams::iterator stream) {
  while (stream->may_be_read() && read_once(stream) > 0) {
  }
  awaits_room_ |= stream->pipe.is_open();
}

void Output::grow(Stream& stream) {
  if (big_pipes_ == kMaxBigPipes || std::exchange(stream.grown, true)) return;
  if (fcntl(stream.pipe.native_handle(), F_SETPIPE_SZ, kBigPipe) > 0) ++big_pipes_;
}

void Output::pass_on(Streams::iterator stream, std::string_view bytes) {
  bytes_read_ += bytes.size();
  const std::string_view text = stream->escapes ? stream->escapes->take(bytes) : bytes;
  if (read_) read_(stream->rank, stream->is_stderr, text);
  std::string unmarked;
  if (stream->take_marked) bytes = unmarked = stream->marked.take(bytes, stream->take_marked);
  const std::string_view kept = stream->escapes ? text : bytes;
  if (stream->is_stderr) stream->stderr_tail.feed(kept);
  remember(stream->rank, kept);
  if (!stream->has_files()) return show(*stream, bytes);
  if (stream->filter) stream->filter->feed(bytes, stream->unsaved.lines);
  stream->unsaved.bytes += bytes;
  save(stream);
}

void Output::remember(int rank, std::string_view bytes) {
  Recent& recent = recent_[rank];
  recent.bytes.add(bytes);
  recent.last = std::chrono::steady_clock::now();
}

std::optional<std::chrono::steady_clock::time_point> Output::last_output(int rank) const {
  const auto found = recent_.find(rank);
  if (found == recent_.end()) return std::nullopt;
  return found->second.last;
}

RecentOutput::Piece Output::recent_output(int rank, std::uint64_t from, size_t most) const {
  const auto found = recent_.find(rank);
  return found == recent_.end() ? RecentOutput::Piece() : found->second.bytes.after(from, most);
}

void Output::show(Stream& stream, std::string_view bytes) {
  if (!stream.sink.shown) return;
  stream.splitter.feed(bytes, stream.console.lines());
  const auto now = std::chrono::steady_clock::now();
  const auto quiet = quiet_time(stream);
  if (now - std::exchange(stream.last_shown, now) >= quiet) stream.burst = 0;
  stream.burst += bytes.size();
  if (stream.may_show_prompt()) show_prompts_by(now + quiet);
}

std::chrono::milliseconds Output::quiet_time(const Stream& stream) const {
  return terminals_[stream.is_stderr ? 1 : 0] >= 0 ? kQuietOnTerminal : kQuietElsewhere;
}

void Output::show_prompts_by(std::chrono::steady_clock::time_point time) {
  if (time >= quiet_by_) return;
  quiet_by_ = time;
  quiet_.expires_at(time);
  quiet_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    quiet_by_ = std::chrono::steady_clock::time_point::max();
    show_prompts();
  });
}

void Output::show_prompts() {
  const auto now = std::chrono::steady_clock::now();
  for (Stream& stream : streams_) {
    if (!stream.may_show_prompt()) continue;
    if (!stream.is_read_to_its_end()) stream.last_shown = now;  // it only seems quiet
    if (const auto due = stream.last_shown + quiet_time(stream); due > now) {
      show_prompts_by(due);
      continue;
    }
    stream.splitter.pass_on_kept(stream.console.lines());
    stream.console.flush_soon();
  }
}

/// Runs one job at a time, which keeps the order. Until it has ended, the pipe is not read.
void Output::save(Streams::iterator stream) {
  if (stream->saving || stream->unsaved.empty()) return;
  stream->saving = true;
  auto unsaved = std::make_shared<const Stream::Unsaved>(std::exchange(stream->unsaved, {}));
  files_.run(
      [file = stream->sink.file, duplicates = stream->sink.duplicates, unsaved] {
        return unsaved->append_to(file.get(), duplicates.get());
      },
      [this, stream, unsaved](const Result<>& saved) { on_saved(stream, unsaved->bytes, saved); });
}

void Output::on_saved(Streams::iterator stream, std::string_view bytes, const Result<>& saved) {
  if (!saved && !std::exchange(log_loss_reported_, true)) {
    log::warning("log files will have gaps: " + saved.error().message);
  }
  stream->saving = false;
  ++stream->saves;
  if (release(stream)) return;
  show(*stream, bytes);
  save(stream);
  if (!stream->pipe.is_open() && !stream->saving) finish_line(*stream);
  stream->console.flush_soon();
  wait(stream);
}

void Output::end(Streams::iterator stream) {
  boost::system::error_code ignored;
  stream->pipe.close(ignored);
  if (stream->filter) stream->filter->finish(stream->unsaved.lines);
  save(stream);
  if (!stream->saving) finish_line(*stream);
}

void Output::finish_line(Stream& stream) {
  stream.splitter.finish(stream.console.lines());
  stream.console.flush_soon();
}

std::string Output::StderrEnd::read() const {
  if (!file) return text;
  StderrTail tail;
  tail.feed(file->tail(2 * StderrTail::kLookedAt));
  return tail.text();
}

std::vector<std::shared_ptr<const LogFile>> Output::direct_files() const {
  std::vector<std::shared_ptr<const LogFile>> files;
  for (const Stream& stream : streams_) {
    if (stream.sink.direct && stream.sink.file) files.push_back(stream.sink.file);
  }
  return files;
}

bool Output::is_held_up() const {
  return std::ranges::any_of(streams_, [](const Stream& stream) {
    return stream.pipe.is_open() && !stream.may_be_read();
  });
}

std::optional<WindowSize> Output::window(bool of_stderr, std::string_view prefix) const {
  const int terminal = terminals_[of_stderr ? 1 : 0];
  if (terminal < 0) return std::nullopt;
  std::optional<WindowSize> window = window_size(terminal);
  const size_t width = width_of(prefix);
  if (window && width < window->columns) {
    window->columns = static_cast<unsigned short>(window->columns - width);
  }
  return window;
}

void Output::window_changed() {
  for (Stream& stream : streams_) {
    if (!stream.escapes || !stream.pipe.is_open()) continue;
    const auto size = window(stream.is_stderr, stream.splitter.prefix());
    if (size) set_window_size(stream.pipe.native_handle(), *size);
  }
}

Output::Streams::iterator Output::stderr_of(int rank) {
  return std::find_if(streams_.begin(), streams_.end(), [rank](const Stream& stream) {
    return stream.rank == rank && stream.is_stderr;
  });
}

void Output::take_marked_lines(int rank, std::function<void(std::string_view)> taken) {
  const auto stream = stderr_of(rank);
  stream->take_marked = std::move(taken);
  stream->sink.shown = false;
}

void Output::show_stderr(int rank) {
  stderr_of(rank)->sink.shown = true;
}

Output::StderrEnd Output::stderr_end(int rank) {
  const auto stream = stderr_of(rank);
  if (stream == streams_.end()) return {};
  if (stream->sink.direct) return {"", stream->sink.file};
  // Bounded by the size of a pipe, because a grandchild may still write.
  for (size_t taken = 0; stream->pipe.is_open() && taken < kBigPipe;) {
    const size_t count = read_once(stream);
    if (count == 0) break;
    taken += count;
  }
  stream->console.flush_soon();
  return {stream->stderr_tail.text(), nullptr};
}

void Output::on_written() {
  if (dropped_own_lines_ > 0 && err().has_room()) {
    const size_t count = std::exchange(dropped_own_lines_, 0);
    log::warning(std::to_string(count) +
                 " lines of ddprun were dropped: the reader of stderr had stopped");
  }
  if (std::exchange(awaits_room_, false)) {
    for (auto stream = streams_.begin(); stream != streams_.end(); ++stream) wait(stream);
  }
  check_drained();
}

void Output::workers_are_gone() {
  for (auto stream = streams_.begin(); stream != streams_.end(); ++stream) {
    if (!stream->pipe.is_open()) continue;
    if (stream->escapes) {
      stream->ends_when_empty = true;  // FIONREAD does not count everything
      stream->left = kMostInTerminal;
      read_rest(stream);
      continue;
    }
    int left = 0;
    ioctl(stream->pipe.native_handle(), FIONREAD, &left);
    stream->left = static_cast<size_t>(left);
    if (left == 0) end(stream);
  }
}

void Output::when_drained(std::function<void()> done) {
  done_ = std::move(done);
  boost::asio::post(executor_, [this] { check_drained(); });
}

void Output::drop_stopped_readers() {
  if (std::exchange(dropping_, true)) return;
  drop_by_ = std::chrono::steady_clock::now() + kFlushAllLimit;
  drop_stalled_later();
}

/// Repeats until all output is gone: output of killed workers may still be on its way.
void Output::drop_stalled_later() {
  flush_limit_.expires_after(kFlushLimit);
  flush_limit_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled || !dropping_) return;
    const bool now = std::chrono::steady_clock::now() >= drop_by_;
    out_.drop_if_stalled(now);
    if (err_) err_->drop_if_stalled(now);
    drop_stalled_files();
    if (dropping_) drop_stalled_later();
  });
}

void Output::drop_stalled_files() {
  for (Stream& stream : streams_) {
    if (!stream.saving || std::exchange(stream.checked_save, stream.saves) != stream.saves)
      continue;
    boost::system::error_code ignored;
    stream.pipe.close(ignored);
    if (!std::exchange(files_dropped_, true)) {
      log::warning("log files have gaps: their disk had stalled while workers were killed");
    }
  }
  check_drained();
}

void Output::check_drained() {
  if (!done_) return;
  const bool ended = std::none_of(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    return stream.pipe.is_open() || (stream.saving && !stream.removed && !files_dropped_);
  });
  if (!ended) return;
  out_.flush();
  err().flush();
  if (!out_.is_drained() || !err().is_drained()) return;
  dropping_ = false;
  std::exchange(done_, nullptr)();
}

void Output::remove_workers() {
  for (auto next = streams_.begin(); next != streams_.end();) {
    const auto stream = next++;
    if (stream->pipe.is_open()) end(stream);
    stream->removed = true;
    if (stream->has_files()) files_.discard(std::move(stream->sink));
    release(stream);
  }
  out_.lines().end_line();
  err().lines().end_line();
  out_.stop_discarding();
  err().stop_discarding();
  recent_.clear();
  big_pipes_ = 0;
  files_dropped_ = false;
  dropping_ = false;
}

void Output::write_own_line(std::string_view line) {
  LineQueue& lines = err().lines();
  if (lines.size() > kOwnLimit) {
    ++dropped_own_lines_;
    return;
  }
  lines.begin(this);
  lines.append_own(line);
  err().flush();
}

void Output::finish(std::chrono::milliseconds limit) {
  done_ = nullptr;
  files_.wait_until_idle(std::chrono::steady_clock::now() + limit);
  out_.finish(limit);
  if (err_) err_->finish(limit);
}

}  // namespace ddprun::launcher
