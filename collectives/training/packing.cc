// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/packing.h"

#include <cstring>

#include "collectives/call/call.h"
#include "collectives/call/parts.h"

namespace ddp::internal {

std::size_t packed_bytes(std::span<const Buffer> buffers) {
  std::size_t bytes = 0;
  for (const Buffer& buffer : buffers) {
    const Buffer parts = in_parts(buffer);
    bytes += parts.count * size_of(parts.type);
  }
  return bytes;
}

void pack(std::span<const Buffer> buffers, std::byte* packed) {
  for (const Buffer& buffer : buffers) {
    const std::size_t bytes = packed_bytes({&buffer, 1});
    if (bytes > 0) std::memcpy(packed, buffer.data, bytes);
    packed += bytes;
  }
}

void unpack(std::span<const Buffer> buffers, const std::byte* packed) {
  for (const Buffer& buffer : buffers) {
    const std::size_t bytes = packed_bytes({&buffer, 1});
    if (bytes > 0) std::memcpy(buffer.data, packed, bytes);
    packed += bytes;
  }
}

}  // namespace ddp::internal
