// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::launcher {

/// Removes the sequences that control a terminal (colours, cursor movements, titles) from a stream,
/// so that text is kept or searched. Pure.
class EscapeFilter {
 public:
  /// The next `bytes` of the stream without sequences. A sequence may begin in one call and end in
  /// another. Valid until the next call, and as long as `bytes` is.
  std::string_view take(std::string_view bytes);

 private:
  enum class State {
    text,
    escape,   ///< after ESC
    control,  ///< in ESC [ ...: until its final byte
    string,   ///< in ESC ] ... and the like: until BEL or ESC \\ (a newline also ends it)
  };

  State after(char c) const;

  State state_ = State::text;
  std::string text_;
};

/// The values of the macros of a prefix.
struct PrefixFacts {
  int rank = 0;
  int local_rank = 0;
  int node_rank = 0;
  int world_size = 1;
  int restart = 0;
  std::string host;
  std::string role_name = "default";
};

inline constexpr std::string_view kDefaultPrefix = "[${rank}] ";

/// `text` with each macro replaced: ${rank}, ${local_rank}, ${node_rank}, ${world_size},
/// ${restart}, ${host} (also ${hostname}), ${role_name}. Other text is unchanged, also a $ without
/// {. Errors: usage (a macro without }, an unknown macro, a line break), with a list of the macros.
Result<std::string> expand_prefix(std::string_view text, const PrefixFacts& facts);

/// The columns that `prefix` takes on a terminal, without its colour sequences. Each character
/// counts as one.
size_t width_of(std::string_view prefix);

/// `prefix` in the colour of `rank`, for a terminal. An empty prefix stays empty.
std::string coloured_prefix(const std::string& prefix, int rank);

}  // namespace ddprun::launcher
