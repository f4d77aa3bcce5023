// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "ddp/types.h"

namespace ddp::internal {

/// Copies of buffers in host memory, next to each other as bytes. Pure.

/// The number of bytes of the copies.
std::size_t packed_bytes(std::span<const Buffer> buffers);

/// Copies the buffers to `packed`, and back.
void pack(std::span<const Buffer> buffers, std::byte* packed);
void unpack(std::span<const Buffer> buffers, const std::byte* packed);

}  // namespace ddp::internal
