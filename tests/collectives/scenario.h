// SPDX-License-Identifier: Apache-2.0
// What the programs of the tests have in common that are one rank each. Exit code: 0 all right, 1 a
// wrong result (told), 2 another exception (told), 10 + kind for a ddp::Error (told).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ddp/error.h>
#include <exception>
#include <string>

#include "tests/collectives/failed.h"

namespace ddprun::tests {

/// What the ranks are to move data with: DDP_TEST_BACKEND, or what is usual.
inline std::string backend_of_test() {
  const char* const told = std::getenv("DDP_TEST_BACKEND");
  return told == nullptr ? "" : told;
}

[[noreturn]] inline void wrong(const std::string& what) {
  std::printf("wrong: %s\n", what.c_str());
  std::exit(1);
}

inline void check(bool right, const std::string& what) {
  if (!right) wrong(what);
}

/// The call is an error of kind usage, which is told.
template <class F>
void refused(F call) {
  try {
    call();
    wrong("accepted");
  } catch (const ddp::Error& error) {
    if (error.kind() != ddp::ErrorKind::usage) wrong(error.what());
    std::printf("%s\n", error.what());
  }
}

inline int report(const ddp::Error& error) {
  std::printf("%s\n", error.what());
  return failed(error.kind());
}

/// Runs `program` and gives the exit code.
template <class F>
int exit_code_of(F program) {
  try {
    program();
  } catch (const ddp::Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
  return 0;
}

}  // namespace ddprun::tests
