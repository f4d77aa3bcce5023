// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ddp::internal {

/// memcpy() for a part of a result of `whole` bytes. If the result is much longer than the caches,
/// writes past them: else main memory would be read first, only to be overwritten. If `next` is
/// given, also fetches as many bytes from there, which are read soon.
void copy_result(char* to, const char* from, std::size_t bytes, std::size_t whole,
                 const char* next = nullptr);

/// To be called after the last part of results of up to `whole` bytes: a thread that is notified
/// afterwards then sees them. On x86 it might not if they were written past the caches.
void end_results(std::size_t whole);

/// Whether copy_result() writes past the caches.
bool is_past_caches(std::size_t whole);

}  // namespace ddp::internal
