// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/byte_order.h"

namespace ddp::internal {

/// Appends `number` to `out`, in sizeof(Number) bytes, the least significant first.
template <std::unsigned_integral Number>
void put_little_endian(std::string& out, Number number) {
  ddprun::append_little_endian(out, number, sizeof(Number));
}

/// Returns the number whose bytes begin at `at`, which `bytes` must have.
template <std::unsigned_integral Number>
Number get_little_endian(std::string_view bytes, std::size_t at) {
  return static_cast<Number>(ddprun::little_endian(bytes.substr(at, sizeof(Number))));
}

}  // namespace ddp::internal
