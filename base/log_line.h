// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// The format of ddprun's own lines. Pure.

namespace ddprun::log {

enum class Level { debug, info, warning, error, off };

/// "debug", "info", "warning", "error" or "off".
std::string_view level_name(Level level);

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

/// One line, without host and time, for a ddprun on another host, which shows it.
std::string relayed_line(const Line& line);

/// Parses a line of relayed_line(), without the newline; leaves `host` and `at` unset. nullopt:
/// something else wrote it.
std::optional<Line> decode_relayed(std::string_view line);

}  // namespace ddprun::log
