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

/// The text of a line, its author and its time.
struct Line {
  Level level = Level::info;
  std::string host;  ///< who says it; empty: the job has one node
  std::string text;  ///< may have several lines
  std::chrono::system_clock::time_point at;
};

/// "ddprun: text", with several nodes "ddprun: [host] text", and with `with_time` after the time:
/// "2026-11-23T17:51:50.123Z ddprun: text". Later lines of the text are indented under the first.
/// Control characters are escaped, as some of it comes from other hosts.
std::string text_line(const Line& line, bool with_time);

/// A JSON object in one line: "time", "level", "host" (unless empty) and "message".
std::string json_line(const Line& line);

/// For a ddprun on another host, which shows it: one line, without the host and the time.
std::string relayed_line(const Line& line);

/// Parses a line of relayed_line, without the newline; `host` and `at` are not set. nullopt:
/// something else wrote it.
std::optional<Line> decode_relayed(std::string_view line);

}  // namespace ddprun::log
