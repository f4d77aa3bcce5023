// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/error.h"
#include "tests/catch.h"

namespace ddprun {

/// The value of `result`, or a test failure that prints its message. (Catch2's REQUIRE(result)
/// does not compile: Boost.System's operator<< for result is unconstrained.)
template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}

inline void must(const Result<>& result) {
  if (!result) FAIL(result.error().message);
}

}  // namespace ddprun
