// SPDX-License-Identifier: Apache-2.0
#include "launcher/process_use.h"

#include <chrono>
#include <unistd.h>

#include "tests/catch.h"

using namespace ddprun::launcher;

TEST_CASE("process use: the ticks are found behind any name") {
  const std::string numbers = " S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0";
  CHECK(parse_cpu_ticks("4711 (python3)" + numbers) == 127);
  CHECK(parse_cpu_ticks("4711 (a) R 9 (b) x)" + numbers) == 127);
  CHECK(parse_cpu_ticks("4711 (python3) S 1 2") == 0);
  CHECK(parse_cpu_ticks("") == 0);
}

TEST_CASE("process use: of this process") {
  const double before = process_use(getpid()).cpu_seconds;
  const auto began = std::chrono::steady_clock::now();
  double used = 0;
  while (used <= 0 && std::chrono::steady_clock::now() - began < std::chrono::seconds(30)) {
    used = process_use(getpid()).cpu_seconds - before;
  }
  CHECK(used > 0);
  CHECK(process_use(getpid()).resident > 100'000);
}
