// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/random_name.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/random.h>

namespace ddprun::rendezvous {

std::string random_name() {
  unsigned char bytes[16];
  // 16 bytes come whole, or not at all: random(4), getrandom(2).
  while (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    if (errno != EINTR) std::abort();
  }
  std::string name;
  for (const unsigned char byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

}  // namespace ddprun::rendezvous
