// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Numbers as text. Pure.

namespace ddprun::doctor {

/// "64 MiB", "7.5 GiB".
std::string size_text(std::int64_t bytes);

}  // namespace ddprun::doctor
