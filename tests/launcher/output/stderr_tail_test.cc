// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/stderr_tail.h"

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

std::string tail_of(const std::string& text) {
  StderrTail tail;
  tail.feed(text);
  return tail.text();
}

TEST_CASE("the tail of a short text is the text") {
  CHECK(tail_of("").empty());
  CHECK(tail_of("a\nb\n") == "a\nb");
  CHECK(tail_of("a\n\nb") == "a\n\nb");
}

TEST_CASE("the tail is at most twenty lines") {
  StderrTail tail;
  for (int i = 0; i < 5000; ++i) tail.feed("line " + std::to_string(i) + "\n");
  std::string expected = "line 4980";
  for (int i = 4981; i < 5000; ++i) expected += "\nline " + std::to_string(i);
  CHECK(tail.text() == expected);
}

TEST_CASE("of long lines, as many whole ones as fit into 4 KiB are kept") {
  const std::string long_line(3000, 'x');
  CHECK(tail_of(long_line + "\n" + long_line + "\nend\n") == long_line + "\nend");
  CHECK(tail_of(std::string(100'000, 'y')) == std::string(StderrTail::kBytes, 'y'));
}

TEST_CASE("of a progress line only its last state is kept") {
  CHECK(tail_of("\r1%\r2%\r3%\nboom\r\n\rafter\r") == "3%\nboom\nafter");
}

}  // namespace
}  // namespace ddprun::launcher
