// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddprun::launcher {

/// Marks code that runs on a stack and in a thread unknown to the sanitizers.
#define DDPRUN_UNSANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))

DDPRUN_UNSANITIZED inline long raw_word(long number) {
  return number;
}
DDPRUN_UNSANITIZED inline long raw_word(const void* address) {
  return reinterpret_cast<long>(address);
}

/// Makes a system call; arguments are integers and pointers. Returns its result or -errno. Unlike
/// libc's wrappers it does not write errno, which is the parent's if a child shares its memory.
template <class A = long, class B = long, class C = long, class D = long, class E = long>
DDPRUN_UNSANITIZED inline long raw_syscall(long number, A a = {}, B b = {}, C c = {}, D d = {},
                                           E e = {}) {
  // Computed before any register is bound: a function call would not preserve it.
  const long words[] = {raw_word(a), raw_word(b), raw_word(c), raw_word(d), raw_word(e)};
#if defined(__x86_64__)
  long result = number;
  register long r10 asm("r10") = words[3];
  register long r8 asm("r8") = words[4];
  asm volatile("syscall"
               : "+a"(result)
               : "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = words[0];
  register long x1 asm("x1") = words[1];
  register long x2 asm("x2") = words[2];
  register long x3 asm("x3") = words[3];
  register long x4 asm("x4") = words[4];
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
#else
#error "raw_syscall does not support this processor"
#endif
}

}  // namespace ddprun::launcher
