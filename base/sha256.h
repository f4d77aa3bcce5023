// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// SHA-256 (FIPS 180-4) of `text`, as 64 hexadecimal digits. For short texts on hosts that may lack
/// OpenSSL.
std::string sha256(std::string_view text);

}  // namespace ddprun
