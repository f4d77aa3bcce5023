// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hints of a program to the processor that it runs on.

namespace ddp::internal {

/// Waits for a moment, and leaves the processor's units to the other thread of the core.
inline void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Makes the cache line this processor's own, as others have read it, so that a write need not
/// wait.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

/// Gets a copy of the cache line as it is now. (GCC 12 drops calls of functions that only call
/// __builtin_prefetch().)
inline void prefetch_to_read(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 0);
#endif
}

}  // namespace ddp::internal
