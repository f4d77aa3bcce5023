// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ddp::internal {
namespace {

/// From this size on, all_reduce of two ranks was faster past the caches. The next reader of a
/// shorter result would miss it there.
constexpr std::size_t kPastCaches = std::size_t{32} << 20;

#if defined(__x86_64__)

void copy_past_caches(char* to, const char* from, std::size_t bytes, const char* next) {
  constexpr std::size_t kLine = 64;
  const std::size_t head = std::min((kLine - reinterpret_cast<std::uintptr_t>(to)) % kLine, bytes);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    if (next != nullptr) _mm_prefetch(next + at, _MM_HINT_T0);
    for (std::size_t i = 0; i < kLine; i += sizeof(__m128i)) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i), part);
    }
  }
  std::memcpy(to + at, from + at, bytes - at);
}

#else

void copy_past_caches(char* to, const char* from, std::size_t bytes, const char* /*next*/) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace

bool is_past_caches(std::size_t whole) {
  return whole >= kPastCaches;
}

void copy_result(char* to, const char* from, std::size_t bytes, std::size_t whole,
                 const char* next) {
  if (bytes == 0) return;
  if (is_past_caches(whole)) return copy_past_caches(to, from, bytes, next);
  std::memcpy(to, from, bytes);
}

void end_results([[maybe_unused]] std::size_t whole) {
#if defined(__x86_64__)
  if (is_past_caches(whole)) _mm_sfence();
#endif
}

}  // namespace ddp::internal
