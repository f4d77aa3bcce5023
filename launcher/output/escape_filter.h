// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

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

}  // namespace ddprun::launcher
