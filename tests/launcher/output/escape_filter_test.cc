// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "launcher/output/prefix.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

std::string plain(std::string_view bytes) {
  EscapeFilter filter;
  return std::string(filter.take(bytes));
}

TEST_CASE("only colours, movements and titles are removed from a stream") {
  CHECK(plain("loss \033[1;36m5\033[0m\n") == "loss 5\n");
  CHECK(plain("\r\033[2K\033[1A 10%\t\b\n") == "\r 10%\t\b\n");
  CHECK(plain("\033]0;title\atext") == "text");
  CHECK(plain("\033]8;;http://a\033\\link\033]8;;\033\\") == "link");
  CHECK(plain("\033Pq#0\033\\sixel") == "sixel");
  CHECK(plain("\033(Bascii \033=keys\033M") == "ascii keys");
  CHECK(plain("\033\033[31mred") == "red");
  CHECK(plain("gr\u00fc\u00dfe [0m") == "gr\u00fc\u00dfe [0m");
}

TEST_CASE("a sequence that comes in pieces is removed, too") {
  const std::string text = "a\033[38;5;4mb\033]0;t\033\\c\033(Bd";
  EscapeFilter filter;
  std::string out;
  for (const char c : text) out += filter.take(std::string_view(&c, 1));
  CHECK(out == "abcd");
}

TEST_CASE("a sequence that never ends removes no line") {
  CHECK(plain("\033]0;title\nline\n") == "\nline\n");
  CHECK(plain("\033[31\nline\n") == "\nline\n");
  CHECK(plain("\033\nline\n") == "\nline\n");
}

}  // namespace
}  // namespace ddprun::launcher
