// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::log {

enum class Level { debug, info, warning, error, off };

/// "debug", "info", "warning", "error" or "off". Errors: usage, which names the five.
Result<Level> parse_level(std::string_view name);

/// Lines below `level` are dropped. The default is `info`.
void set_level(Level level);

/// Who receives finished lines (with their newline). The default writes them to stderr at once;
/// an agent that relays worker output puts them into that stream, so that no line is torn.
/// An empty function restores the default.
void set_writer(std::function<void(std::string_view line)> writer);

/// Each writes `text` as "ddprun: text". A text of several lines is one message: later lines are
/// indented under the first, so that they read as one block. Main thread only.
void debug(std::string_view text);
void info(std::string_view text);
void warning(std::string_view text);
void error(std::string_view text);

}  // namespace ddprun::log
