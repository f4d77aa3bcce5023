// SPDX-License-Identifier: Apache-2.0
#include "base/colour.h"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace ddprun {
namespace {

Colour chosen = Colour::automatic;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_forced(std::string_view value) {
  return !value.empty() && value != "0";
}

}  // namespace

void set_colour(Colour colour) {
  chosen = colour;
}

bool wants_colour(int fd) {
  if (chosen != Colour::automatic) return chosen == Colour::always;
  if (!variable("NO_COLOR").empty()) return false;
  if (is_forced(variable("CLICOLOR_FORCE")) || is_forced(variable("FORCE_COLOR"))) return true;
  return variable("CLICOLOR") != "0" && is_capable_terminal(fd);
}

bool is_capable_terminal(int fd) {
  const std::string_view term = variable("TERM");
  return isatty(fd) == 1 && !term.empty() && term != "dumb";
}

}  // namespace ddprun
