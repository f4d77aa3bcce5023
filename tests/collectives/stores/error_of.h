// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/error.h"
#include "tests/catch.h"

namespace ddprun::tests {

/// Returns the error that `call` throws; the test fails if it throws nothing.
template <class F>
ddp::Error error_of(const F& call) {
  try {
    call();
  } catch (const ddp::Error& error) {
    return error;
  }
  FAIL("no error");
  return {ddp::ErrorKind::system, ""};
}

}  // namespace ddprun::tests
