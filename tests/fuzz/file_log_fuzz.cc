// SPDX-License-Identifier: Apache-2.0
// The bytes of a FileStore's file, without its header: what is read of them is what was written,
// and bytes that are missing are waited for.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "collectives/stores/file_log.h"

namespace {

using ddp::internal::decode;
using ddp::internal::encode;
using ddp::internal::LogEntry;
using ddp::internal::LogStatus;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  LogEntry entry;
  while (decode(rest, entry) == LogStatus::complete) {
    const std::string_view written = rest.substr(0, entry.size);
    require(entry.size > 0 && entry.size <= rest.size(), "an entry is within the bytes");
    require(encode(entry) == written, "an entry is what was written");
    LogEntry cut;
    require(decode(written.substr(0, written.size() - 1), cut) == LogStatus::incomplete,
            "an entry without its last byte is waited for");
    rest.remove_prefix(entry.size);
  }
  return 0;
}
