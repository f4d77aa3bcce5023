// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ddp::internal {

/// As memcpy, for a part of a result of `whole` bytes. One that is much longer than the caches is
/// written past them: else main memory would be read first, only to be overwritten. From `next` on,
/// if there is one, as many bytes are fetched meanwhile: they are read soon.
void copy_result(char* to, const char* from, std::size_t bytes, std::size_t whole,
                 const char* next = nullptr);

/// After the last part of results of up to `whole` bytes: who is told of them then sees them, which
/// on x86 a thread may not before, if they were written past the caches.
void end_results(std::size_t whole);

/// Whether copy_result() does that.
bool is_past_caches(std::size_t whole);

}  // namespace ddp::internal
