// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The commands that ask running jobs, and their command lines. Pure.

namespace ddprun::cli {

/// A command such as `ddprun status`.
struct VerbText {
  std::string_view name;
  std::string_view arguments;  ///< as in its usage
  std::string_view options;    ///< its options, with a space after each
  size_t most_names;           ///< words that are no options
  std::string_view help;       ///< begins like "shows ..."
};

/// All commands, in the order of their help.
std::span<const VerbText> verb_texts();

/// The command of this name, or nullptr.
const VerbText* find_verb_text(std::string_view name);

/// The arguments of such a command.
struct VerbLine {
  std::vector<std::string> options;  ///< "--json"
  std::vector<std::string> names;

  bool has(std::string_view option) const;
};

/// Reads the words after `verb`. Errors: usage.
Result<VerbLine> read_verb_line(const VerbText& verb, std::span<const std::string> words);

}  // namespace ddprun::cli
