// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun {

/// Whether ddprun's own text has colours.
enum class Colour {
  automatic,  ///< as the environment says, or else on a terminal that can show them
  never,
  always,
};

/// Sets it for the whole process; automatic before the first call. Main thread only.
void set_colour(Colour colour);

/// Whether text for `fd` has colours. The first of these variables that is set and not empty
/// decides. NO_COLOR (no-color.org): no colours. CLICOLOR_FORCE, FORCE_COLOR (not 0): colours, also
/// in a file. CLICOLOR=0: no colours. Main thread only.
bool wants_colour(int fd);

/// Whether `fd` is a terminal that obeys control sequences, according to TERM.
bool is_capable_terminal(int fd);

}  // namespace ddprun
