// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/line/flags.h"

// A configuration file, ddprun.toml: flags by their names. Pure.

namespace ddprun::cli {

/// The name of the file in the current directory that is read unless the user names another one.
constexpr std::string_view kConfigName = "ddprun.toml";

/// The value of --config that means: read none.
constexpr std::string_view kNoConfig = "none";

/// The longest file: toml++ goes down a level of its stack for each part of a dotted key.
constexpr size_t kLongestConfig = 16 * 1024;

/// Whether a file can set the flag: others are about one command line.
bool is_for_files(const Flag& flag);

/// A flag that a file sets.
struct ConfigEntry {
  const Flag* flag = nullptr;
  std::string value;  ///< as on the command line; of a switch "1" or "0"
  std::string place;  ///< "ddprun.toml:3"
  std::string key;    ///< the flag's name as it is written there
};

/// The entries of a file, in the order of its lines. A key is a flag's name, with dashes or
/// underscores; its value a string, a number, a boolean for a switch, or an array for a list.
///
/// Errors: usage, "NAME:LINE: " and the reason: no TOML, an unknown key, a flag that is not for
/// files, a key that is there twice, a value of another type. Does not check whether the flag
/// accepts the value.
Result<std::vector<ConfigEntry>> parse_config(std::string_view text, const std::string& name);

}  // namespace ddprun::cli
