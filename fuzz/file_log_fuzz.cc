// SPDX-License-Identifier: Apache-2.0
// The entries of a FileStore's file, without its header. A decoded entry encodes to the same bytes,
// and a cut entry is incomplete.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/stores/file_log.h"
#include "fuzz/target.h"

using ddp::internal::decode;
using ddp::internal::encode;
using ddp::internal::LogEntry;
using ddp::internal::LogStatus;
using ddprun::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  LogEntry entry;
  while (decode(rest, entry) == LogStatus::complete) {
    const std::string_view written = rest.substr(0, entry.size);
    require(entry.size > 0 && entry.size <= rest.size(), "an entry lies within the input");
    require(encode(entry) == written, "a decoded entry encodes to the same bytes");
    LogEntry cut;
    require(decode(written.substr(0, written.size() - 1), cut) == LogStatus::incomplete,
            "an entry without its last byte is incomplete");
    rest.remove_prefix(entry.size);
  }
  return 0;
}
