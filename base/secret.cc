// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <utility>

#include "base/text.h"

namespace ddprun {

// Shared, so that when one of two forked processes overwrites it, it is gone in both.
Secret::Secret(std::string_view bytes) {
  if (bytes.empty()) return;
  // OpenSSL's state of a line is computed from these bytes, is as secret, and lies elsewhere.
  prctl(PR_SET_DUMPABLE, 0);
  void* memory =
      mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes.size(), MADV_DONTDUMP);
  bytes_ = static_cast<char*>(memory);
  size_ = bytes.size();
  std::memcpy(bytes_, bytes.data(), size_);
}

Secret& Secret::operator=(Secret&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  return *this;
}

void Secret::wipe() {
  if (bytes_ == nullptr) return;
  explicit_bzero(bytes_, size_);
  munmap(std::exchange(bytes_, nullptr), std::exchange(size_, 0));
}

Secret take_variable(const char* name) {
  char* value = getenv(name);
  if (value == nullptr) return {};
  Secret taken{std::string_view(value)};
  explicit_bzero(value, std::strlen(value));
  unsetenv(name);
  return taken;
}

std::string random_name() {
  char bytes[16];
  // 16 bytes come whole, or not at all: random(4), getrandom(2).
  while (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    if (errno != EINTR) std::abort();
  }
  return hex_text(std::string_view(bytes, sizeof bytes));
}

}  // namespace ddprun
