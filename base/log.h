// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::log {

enum class Level { debug, info, warning, error, off };

/// "debug", "info", "warning", "error" or "off". Errors: usage.
Result<Level> parse_level(std::string_view name);

/// Lines below `level` are dropped. The default is `info`.
void set_level(Level level);

/// Sets the function that gets finished lines, with their newline. The default writes them to
/// stderr at once; an agent puts them between the lines of its workers, so that no line is torn. An
/// empty function restores the default.
void set_writer(std::function<void(std::string_view line)> writer);

/// Begins each line of ddprun's own from now on, for a ddprun that reads them and shows them
/// itself.
inline constexpr char kMark = '\x1e';
void mark_lines();

/// Whether mark_lines() was called.
bool are_lines_marked();

/// Each writes `text` as "ddprun: text". A text of several lines is one message: later lines are
/// indented under the first. Main thread only.
void debug(std::string_view text);
void info(std::string_view text);
void warning(std::string_view text);
void error(std::string_view text);

}  // namespace ddprun::log
