// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Errors in the command line, and guesses of what the user meant. Pure.

namespace ddprun::cli {

/// An error in the command line; `sentence` names the flag, the value, and a right one.
Error usage_error(std::string sentence);

/// The first candidate closest to `word`: with the fewest letters to insert, remove, replace or
/// swap. nullopt: none is close enough for a typing mistake (more than a third of the letters
/// differ).
std::optional<std::string> suggest(std::string_view word,
                                   const std::vector<std::string>& candidates);

/// The first candidate that begins with `word`, such as nproc_per_node for "nproc".
std::optional<std::string> name_that_begins_with(std::string_view word,
                                                 const std::vector<std::string>& candidates);

/// The second half of a sentence about an unknown name: "; did you mean NAME?" with `suggestion`,
/// or "; " and `otherwise` without one.
std::string did_you_mean(const std::optional<std::string>& suggestion, std::string_view otherwise);

}  // namespace ddprun::cli
