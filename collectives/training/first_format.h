// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "collectives/training/checkpoint_header.h"

namespace ddp::internal {

/// The header of the files that ddp 0.1.0 wrote. All numbers have 64 bits, little-endian:
///
///     "ddp checkpoint 1"   16 bytes
///     checksum             FNV-1a of all bytes after it, those of the parts included
///     version
///     number of parts      at most kMaxCheckpointParts
///     for each part: its type, as DataType counts them from float16, 0; how many elements
///
/// The elements of all parts follow, as in memory, one part after the other, and nothing else.
/// Pure.

/// The bytes between the checksum and the elements.
std::string checked_in_first_format(const CheckpointHeader& header);

/// Reads the header at the start of `bytes`.
HeaderStatus decode_first_format(std::string_view bytes, CheckpointHeader& header);

}  // namespace ddp::internal
