// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::internal {

/// What a FileStore's file holds: kFileLogHeader, then entries, each a change of one key: a letter,
/// the lengths of key and value as 32 bits each, little-endian, and the bytes of both. Pure.

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
  malformed,   ///< no entry begins like that
};

/// Reads the entry at the start of `bytes`; it refers to them. Keys of at most 16 KiB and values of
/// at most 8 MiB are entries.
LogStatus decode(std::string_view bytes, LogEntry& entry);

}  // namespace ddp::internal
