// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

struct CUstream_st;  // what CUDA's CUstream points to

namespace ddp::internal {

/// Functions for backends whose calls block the host and yet take buffers on a GPU. Builds without
/// CUDA's headers have them, too.

/// Throws ddp::Error of kind usage if this process sees no GPU, or `stream` is being captured into
/// a graph: a call of the host cannot be added to it. The error names `operation`.
void check_host_call(const char* operation, CUstream_st* stream);

/// Appends a copy between two buffers of the GPU of choose_device() to the stream. Call
/// check_host_call() first. Throws ddp::Error.
void copy_in_stream(void* to, const void* from, std::size_t bytes, CUstream_st* stream);

}  // namespace ddp::internal
