// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "collectives/training/checkpoint_header.h"

namespace ddp::internal {

/// The header of a safetensors file (https://github.com/huggingface/safetensors): the size of the
/// JSON as 64 bits, little-endian; the JSON. Then come the elements of all parts, as in memory, and
/// nothing else. Part i is the tensor "part_<i>" of one dimension. Pure.
///
///     {"__metadata__": {"ddp.checksum": "xxh3:0123456789abcdef", "ddp.generation": "<number>",
///                       "ddp.version": "<number>"},
///      "part_0": {"dtype": "F32", "shape": [1000], "data_offsets": [0, 4000]}, ...}

/// Returns a multiple of 8 bytes; the checksum, which the header has, does not change the length.
std::string encode_safetensors(const CheckpointHeader& header);

/// Reads the header at the start of `bytes`, also of other programs' files: without metadata of
/// ddp, with other orders of the elements, and other shapes.
HeaderStatus decode_safetensors(std::string_view bytes, CheckpointHeader& header);

}  // namespace ddp::internal
