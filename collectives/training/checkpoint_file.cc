// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/checkpoint_file.h"

#include "collectives/call/call.h"
#include "collectives/training/first_format.h"
#include "collectives/training/safetensors.h"

namespace ddp::internal {

std::uint64_t data_size(const CheckpointHeader& header) {
  std::uint64_t total = 0;
  for (const CheckpointPart& part : header.parts) total += part.count * size_of(part.type);
  return total;
}

HeaderStatus decode(std::string_view bytes, CheckpointHeader& header) {
  const HeaderStatus first = decode_first_format(bytes, header);
  return first == HeaderStatus::malformed ? decode_safetensors(bytes, header) : first;
}

std::string checked_bytes(CheckpointHeader header) {
  if (header.first_format) return checked_in_first_format(header);
  header.checksum = 0;
  return encode_safetensors(header);
}

}  // namespace ddp::internal
