// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log_line.h"

namespace ddprun::log {

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

/// How lines look: see base/log_line.h.
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
