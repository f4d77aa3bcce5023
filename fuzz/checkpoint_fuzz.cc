// SPDX-License-Identifier: Apache-2.0
// The header of a checkpoint file. A cut header is incomplete, a decoded header encodes to one that
// decodes to the same, and memory could hold its sizes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/training/checkpoint_file.h"
#include "collectives/training/first_format.h"
#include "collectives/training/safetensors.h"
#include "fuzz/target.h"

using namespace ddp::internal;
using ddprun::fuzz::require;

namespace {

void check_again(CheckpointHeader header) {
  if (!header.checksum) header.checksum = 0;  // the checksum of another program
  const std::string written = encode_safetensors(header);
  CheckpointHeader read;
  require(decode(written, read) == HeaderStatus::complete, "an encoded header is complete");
  header.size = written.size();
  require(read == header, "an encoded header decodes to the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckpointHeader header;
  if (decode(bytes, header) != HeaderStatus::complete) return 0;
  require(header.size <= size && header.size <= kMaxCheckpointHeader,
          "a header lies within the input and the limit");
  require(data_size(header) < std::uint64_t{1} << 62, "memory could hold the elements");
  CheckpointHeader cut;
  require(decode(bytes.substr(0, header.size - 1), cut) == HeaderStatus::incomplete,
          "a header without its last byte is incomplete");
  if (header.first_format) {
    require(checked_in_first_format(header) == bytes.substr(24, header.size - 24),
            "a header of the first format encodes to the same bytes");
  } else {
    check_again(header);
  }
  return 0;
}
