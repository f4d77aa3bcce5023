// SPDX-License-Identifier: Apache-2.0
// All of Catch2 2; Catch2 3 is a library.
#define CATCH_CONFIG_RUNNER
#include "tests/catch.h"

int run_catch(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
