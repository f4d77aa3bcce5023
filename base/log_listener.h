// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace ddprun::log {

/// Sets the function that also gets each warning, and each recovery (`is_over`), at whatever level.
/// An empty function removes it.
void set_listener(std::function<void(std::string_view text, bool is_over)> listener);

/// Logs like info(): the condition of an earlier warning is over.
void recovery(std::string_view text);

}  // namespace ddprun::log
