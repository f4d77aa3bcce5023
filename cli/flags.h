// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "agent/job_spec.h"

namespace ddprun::cli {

/// What the flags said, before the machine is asked what it means.
struct Choices {
  agent::JobSpec job;            ///< what needs no more thought
  std::string local_size = "1";  ///< a number >= 1, "auto", "gpu" or "cpu"
  std::string nodes = "1";       ///< --nnodes as it was written
  bool standalone = false;
  std::optional<std::string> prefix;  ///< the template the user gave
  bool no_prefix = false;
  bool dry_run = false;
};

/// Headings of --help, in its order.
enum class Group { workers, rendezvous, failures, output, information };

/// One flag. Names are written with underscores; dashes mean the same.
struct Flag {
  Group group;
  std::string_view name;         ///< without the leading dashes
  std::string_view value;        ///< what follows it, in its unit; empty: nothing does
  std::string_view environment;  ///< the variable that gives its default; empty: none
  std::string_view fallback;     ///< the default without that variable, for --help
  std::string_view wants;        ///< what a right value is, for refusals
  std::string_view help;

  /// Takes the value into `choices`, a switch "0" or "1"; false: not a right value.
  bool (*take)(std::string_view value, Choices& choices);
};

/// Every flag there is, in the order of --help.
std::span<const Flag> flags();

/// The flag written as `word` up to any '=', dashes and underscores mixed at will; nullptr: none.
const Flag* find_flag(std::string_view word);

/// Flags that answer instead of running something.
constexpr std::string_view kHelp = "help";
constexpr std::string_view kVersion = "version";

/// `ddprun --help`.
std::string help_text();

}  // namespace ddprun::cli
