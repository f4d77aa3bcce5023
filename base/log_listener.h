// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace ddprun::log {

/// Sets the function that also gets each warning, and with `is_over` each recovery, whatever the
/// level; an empty one: none.
void set_listener(std::function<void(std::string_view text, bool is_over)> listener);

/// As info(): what a warning was about is over.
void recovery(std::string_view text);

}  // namespace ddprun::log
