// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's file begins with: what is read of it is what was written, a header that is
// cut is waited for, and sizes are what memory could hold.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "collectives/training/checkpoint_file.h"

namespace {

using namespace ddp::internal;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckpointHeader header;
  if (decode(bytes, header) != HeaderStatus::complete) return 0;
  require(header.size() <= size && header.size() <= kMaxCheckpointHeader,
          "a header is within the bytes, and the bound");
  require(header.data_size() < std::uint64_t{1} << 62, "elements are what memory could hold");
  const std::string_view written = bytes.substr(0, header.size());
  require(encode(header) == written, "a header is what was written");
  CheckpointHeader cut;
  require(decode(written.substr(0, written.size() - 1), cut) == HeaderStatus::incomplete,
          "a header without its last byte is waited for");
  return 0;
}
