// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/error.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/console_writer.h"
#include "launcher/output/escape_filter.h"
#include "launcher/output/line_filter.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/log_file.h"
#include "launcher/output/marked_lines.h"
#include "launcher/output/stderr_tail.h"

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

}  // namespace ddprun::launcher
