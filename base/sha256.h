// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// SHA-256 (FIPS 180-4) of `text`, as 64 hexadecimal digits. For a few bytes, where OpenSSL may be
/// missing.
std::string sha256(std::string_view text);

}  // namespace ddprun
