// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::log {

// The format of ddprun's own lines.

enum class Level { debug, info, warning, error, off };

/// A message, the host that logged it and its time.
struct Line {
  Level level = Level::info;
  std::string host;  ///< that logged it; empty: the job has one node
  std::string text;  ///< may have several lines
  std::chrono::system_clock::time_point at;
};

/// "ddprun: text"; if `host` is set, "ddprun: [host] text"; if `with_time`, after the time:
/// "2026-11-23T17:51:50.123Z ddprun: text". Further lines of the text are indented under the first.
/// Control characters are escaped, because some text comes from other hosts.
std::string text_line(const Line& line, bool with_time);

/// A JSON object in one line: "time", "level", "host" (unless empty) and "message".
std::string json_line(const Line& line);

/// Formats a line for a ddprun on another host, which prints it with host and time.
std::string relayed_line(const Line& line);

/// Parses a line of relayed_line(), without the newline; leaves `host` and `at` unset. nullopt:
/// something else wrote it.
std::optional<Line> decode_relayed(std::string_view line);

/// Sets the function that also gets each warning, and each recovery (`is_over`), at whatever level.
/// An empty function removes it.
void set_listener(std::function<void(std::string_view text, bool is_over)> listener);

/// Logs like info(): the condition of an earlier warning is over.
void recovery(std::string_view text);

/// "debug", "info", "warning", "error" or "off". Errors: usage.
Result<Level> parse_level(std::string_view name);

/// Drops lines below `level`. The default is `info`.
void set_level(Level level);

enum class Format { text, plain, json };

/// "text", "plain" or "json". Errors: usage.
Result<Format> parse_format(std::string_view name);

/// How lines look.
struct Style {
  Format format = Format::text;
  bool with_time = false;  ///< for text; JSON always has the time
  std::string host;        ///< this host's name; empty: the job has one node
};

/// The style for these settings. Text has the time at level debug, and if stderr is a file, as that
/// is read later. `plain` never has it.
Style style_for(Format format, Level level, std::string host);
void set_style(Style wanted);

/// Sets the function that gets finished lines, with their newline. The default writes them to
/// stderr at once. An agent writes them between the lines of its workers, so that no line is torn.
/// An empty function restores the default.
void set_writer(std::function<void(std::string_view line)> writer);

/// Relays all lines from now on to another ddprun, which reads and shows them: each is written as
/// this mark and relayed_line().
inline constexpr char kMark = '\x1e';
void relay_lines();

/// Whether relay_lines() was called.
bool are_lines_relayed();

/// Writes a message that the ddprun of another host has relayed.
void show_relayed(const Line& line);

/// Each writes `text`, by default as "ddprun: text". A text of several lines is one message. Main
/// thread only.
void debug(std::string_view text);
void info(std::string_view text);
void warning(std::string_view text);
void error(std::string_view text);

}  // namespace ddprun::log
