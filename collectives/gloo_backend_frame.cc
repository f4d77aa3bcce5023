// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo_backend_frame.h"

#include <limits>

#include "collectives/call.h"
#include "ddp/types.h"

namespace ddp::internal {

bool Frame::is_sound() const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / 8;
  if (kind > Kind::bye || count > kMost || unused != 0) return false;
  if (type > static_cast<std::uint8_t>(DataType::int64) || is_short > 1) return false;
  return follow() <= kShort;
}

std::size_t Frame::follow() const {
  return kind == Kind::message && is_short != 0 ? count * size_of(static_cast<DataType>(type)) : 0;
}

}  // namespace ddp::internal
