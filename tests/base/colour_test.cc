// SPDX-License-Identifier: Apache-2.0
#include "base/colour.h"

#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "tests/catch.h"

using namespace ddprun;

namespace {

/// Whether text for a file, which is no terminal, has colours with these variables.
bool wanted(const std::vector<std::pair<const char*, const char*>>& variables) {
  const Fd file(open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  const bool wants = wants_colour(file.get());
  for (const auto& variable : variables) unsetenv(variable.first);
  return wants;
}

}  // namespace

TEST_CASE("a file has colours only if a variable asks for them") {
  for (const char* name : {"NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"}) unsetenv(name);
  CHECK_FALSE(wanted({}));
  CHECK_FALSE(wanted({{"CLICOLOR", "1"}}));
  CHECK(wanted({{"CLICOLOR_FORCE", "1"}}));
  CHECK(wanted({{"FORCE_COLOR", "2"}}));
  CHECK(wanted({{"FORCE_COLOR", "1"}, {"CLICOLOR", "0"}, {"NO_COLOR", ""}}));
  CHECK_FALSE(wanted({{"FORCE_COLOR", "0"}}));
  CHECK_FALSE(wanted({{"FORCE_COLOR", "1"}, {"NO_COLOR", "1"}}));
}

TEST_CASE("the command line's choice of colours overrides the environment") {
  set_colour(Colour::always);
  CHECK(wanted({{"NO_COLOR", "1"}}));
  set_colour(Colour::never);
  CHECK_FALSE(wanted({{"FORCE_COLOR", "1"}}));
  set_colour(Colour::automatic);
}
