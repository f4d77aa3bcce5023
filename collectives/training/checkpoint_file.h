// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/types.h"

namespace ddp::internal {

/// The header of a Checkpoint's file. All numbers are 64 bits, little-endian:
///
///     "ddp checkpoint 1"   16 bytes
///     checksum             FNV-1a of all bytes after it, those of the parts included
///     version
///     number of parts      at most kMaxCheckpointParts
///     for each part: its type, as DataType counts them from float16, 0; how many elements
///
/// The elements of all parts follow, as in memory, one part after the other, and nothing else.
/// Pure.

inline constexpr std::size_t kMaxCheckpointParts = 1 << 16;

/// The size of the longest header.
inline constexpr std::size_t kMaxCheckpointHeader = 40 + 16 * kMaxCheckpointParts;

/// The offset from which the checksum counts.
inline constexpr std::size_t kCheckpointChecked = 24;

struct CheckpointPart {
  DataType type = DataType::float32;
  std::uint64_t count = 0;

  bool operator==(const CheckpointPart&) const = default;
};

struct CheckpointHeader {
  std::uint64_t checksum = 0;
  std::uint64_t version = 0;
  std::vector<CheckpointPart> parts = {};

  std::size_t size() const { return 40 + 16 * parts.size(); }

  /// Bytes of the parts' elements; below 2^62.
  std::uint64_t data_size() const;
};

std::string encode(const CheckpointHeader& header);

enum class HeaderStatus {
  complete,
  incomplete,  ///< more bytes are needed
  malformed,   ///< not the start of a checkpoint
};

/// Reads the header at the start of `bytes`.
HeaderStatus decode(std::string_view bytes, CheckpointHeader& header);

}  // namespace ddp::internal
