// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/error.h"
#include "tests/catch.h"

namespace ddprun::tests {

/// The message that `call` throws, or a test failure if it throws nothing.
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
