// SPDX-License-Identifier: Apache-2.0
// The header of a checkpoint file: a decoded header encodes to the same bytes, one that is cut is
// incomplete, and sizes are what memory could hold.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/training/checkpoint_file.h"
#include "fuzz/target.h"

using namespace ddp::internal;
using ddprun::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckpointHeader header;
  if (decode(bytes, header) != HeaderStatus::complete) return 0;
  require(header.size() <= size && header.size() <= kMaxCheckpointHeader,
          "a header lies within the input and the limit");
  require(header.data_size() < std::uint64_t{1} << 62, "memory could hold the elements");
  const std::string_view written = bytes.substr(0, header.size());
  require(encode(header) == written, "a decoded header encodes to the same bytes");
  CheckpointHeader cut;
  require(decode(written.substr(0, written.size() - 1), cut) == HeaderStatus::incomplete,
          "a header without its last byte is incomplete");
  return 0;
}
