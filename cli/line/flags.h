// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line/raw_options.h"

namespace ddprun::cli {

/// Headings of --help, in its order.
enum class Group { program, workers, rendezvous, failures, output, torchrun, information };

/// One flag. Names are written with underscores; dashes mean the same.
struct Flag {
  enum Trait : unsigned {
    kServes = 1,   ///< `ddprun serve` accepts it too
    kYields = 2,   ///< more specific flags override it, so it is set before them
    kDoctors = 4,  ///< only `ddprun doctor` accepts it
  };

  Group group;
  std::string_view name;         ///< without the leading dashes
  std::string_view alias;        ///< another name; empty: none
  std::string_view value;        ///< its value in --help, as in N or TIME; empty: a switch
  std::string_view environment;  ///< the variable that sets its default; empty: none
  std::string_view fallback;     ///< the default without that variable, for --help
  std::string_view expects;      ///< the valid values, for error messages
  std::string_view help;

  /// Sets the option in `raw`. The value of a switch is a number, 0 for off.
  SetResult (*set)(std::string_view value, RawOptions& raw);
  unsigned traits = 0;
  char letter = '\0';                        ///< the short form, as in -m; '\0': none
  std::string_view second_environment = {};  ///< used when `environment` is not set
  std::string_view left_out = {};            ///< the value of the flag alone; empty: it needs one

  bool may_be_alone() const { return !left_out.empty(); }
  bool yields() const { return (traits & kYields) != 0; }
  bool in(Mode mode) const {
    if ((traits & kDoctors) != 0) return mode == Mode::doctor;
    return mode != Mode::serve || (traits & kServes) != 0;
  }
};

/// "--name".
std::string spelled(const Flag& flag);

/// All flags, in the order of --help.
std::span<const Flag> flags();

/// The literal alternatives of a value: "auto" and "gpu" of "N|auto|gpu".
std::vector<std::string> literal_values(std::string_view value);

/// A word of the command line, read as a flag.
struct FlagWord {
  const Flag* flag = nullptr;             ///< nullptr: not a flag
  std::optional<std::string_view> value;  ///< the value in the same word, if any; points into it
};

/// Reads "--name", "--name=value" (dashes and underscores mean the same), "-r", "-r=3" or "-r3".
/// The last is not a flag if the letter's flag is a switch.
FlagWord read_flag(std::string_view word);

/// The flag of read_flag(word).
const Flag* find_flag(std::string_view word);

/// Whether `word`, which follows the flag, can be its value. If the flag may be alone, only its
/// literal values can: another word may be the program.
bool can_follow(const Flag& flag, std::string_view word);

/// Flags that print something instead of running a program.
constexpr std::string_view kHelp = "help";

/// Whether a word of any command is "--help" or "-h".
constexpr bool asks_for_help(std::string_view word) {
  return word == "--help" || word == "-h";
}
constexpr std::string_view kVersion = "version";
constexpr std::string_view kPrintCompletion = "print_completion";

}  // namespace ddprun::cli
