// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ddp/types.h"

namespace ddp::internal {

inline constexpr std::size_t kMaxCheckpointParts = 1 << 16;

/// More than the size of every header that is written.
inline constexpr std::size_t kMaxCheckpointHeader = 8 << 20;

/// More than the bytes of all elements, and than memory holds.
inline constexpr std::uint64_t kMaxCheckpointData = std::uint64_t{1} << 62;

struct CheckpointPart {
  DataType type = DataType::float32;
  std::uint64_t count = 0;
  std::uint64_t offset = 0;  ///< of the first element, from the end of the header

  bool operator==(const CheckpointPart&) const = default;
};

/// The header in a checkpoint's file, before the elements.
struct CheckpointHeader {
  bool first_format = false;  ///< of ddp 0.1.0, which is only read; else safetensors
  std::uint64_t size = 0;     ///< bytes in the file
  std::optional<std::uint64_t> checksum = {};  ///< see CheckpointSum; only in files of ddp
  std::uint64_t version = 0;
  std::uint64_t generation = 0;            ///< when the writing group was formed; 0: unknown
  std::vector<CheckpointPart> parts = {};  ///< their elements lie side by side, in any order

  bool operator==(const CheckpointHeader&) const = default;
};

enum class HeaderStatus {
  complete,
  incomplete,  ///< more bytes are needed
  malformed,   ///< not the start of a checkpoint
};

}  // namespace ddp::internal
