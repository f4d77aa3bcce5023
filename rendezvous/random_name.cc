// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/random_name.h"

#include <cerrno>
#include <cstdlib>
#include <sys/random.h>

#include "base/text.h"

namespace ddprun::rendezvous {

std::string random_name() {
  char bytes[16];
  // 16 bytes come whole, or not at all: random(4), getrandom(2).
  while (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    if (errno != EINTR) std::abort();
  }
  return hex_text(std::string_view(bytes, sizeof bytes));
}

}  // namespace ddprun::rendezvous
