// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::internal {

/// The format of a FileStore's file: kFileLogHeader, then entries. An entry is a change of one key:
/// a letter, the lengths of key and value (32 bits each, little-endian), and the bytes of both.
/// Pure.

inline constexpr std::string_view kFileLogHeader = "ddp file store 1\n";

struct LogEntry {
  enum class Change : char { set = 'S', append = 'A', remove = 'D' };

  Change change = Change::set;
  std::string_view key;
  std::string_view value;
  std::size_t size = 0;  ///< bytes in the log
};

std::string encode(const LogEntry& entry);

enum class LogStatus {
  complete,
  incomplete,  ///< more bytes are needed
  malformed,   ///< not the start of an entry
};

/// Decodes the entry at the start of `bytes`; its views refer to `bytes`. Keys have at most 16 KiB,
/// values at most 8 MiB; longer ones are malformed.
LogStatus decode(std::string_view bytes, LogEntry& entry);

}  // namespace ddp::internal
