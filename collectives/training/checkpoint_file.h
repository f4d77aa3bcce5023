// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "collectives/training/checkpoint_header.h"

namespace ddp::internal {

/// The file of a Checkpoint, in either of its formats. Pure.

/// Reads the header at the start of `bytes`.
HeaderStatus decode(std::string_view bytes, CheckpointHeader& header);

/// The bytes of the parts' elements; below 2^62.
std::uint64_t data_size(const CheckpointHeader& header);

/// The bytes before the elements that a file's checksum covers.
std::string checked_bytes(CheckpointHeader header);

}  // namespace ddp::internal
