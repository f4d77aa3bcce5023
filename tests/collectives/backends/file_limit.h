// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include "tests/catch.h"

namespace ddprun::tests {

/// Limits the length of files that this process writes, while this lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace ddprun::tests
