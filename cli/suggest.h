// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::cli {

/// The candidate that `word` most likely was meant to be: the one with the fewest letters to
/// insert, remove, replace or swap, the first of several. nullopt when none is near enough to be
/// a typing mistake (more than a third of the letters differ).
std::optional<std::string> suggest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace ddprun::cli
