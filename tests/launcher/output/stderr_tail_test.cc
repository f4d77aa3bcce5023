// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/stderr_tail.h"

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

std::string last_words_of(const std::string& text) {
  StderrTail words;
  words.feed(text);
  return words.text();
}

TEST_CASE("the last words of a short text are the text") {
  CHECK(last_words_of("").empty());
  CHECK(last_words_of("a\nb\n") == "a\nb");
  CHECK(last_words_of("a\n\nb") == "a\n\nb");
}

TEST_CASE("the last words are at most twenty lines") {
  StderrTail words;
  for (int i = 0; i < 5000; ++i) words.feed("line " + std::to_string(i) + "\n");
  std::string expected = "line 4980";
  for (int i = 4981; i < 5000; ++i) expected += "\nline " + std::to_string(i);
  CHECK(words.text() == expected);
}

TEST_CASE("long lines: as many whole ones as fit into 4 KiB") {
  const std::string long_line(3000, 'x');
  CHECK(last_words_of(long_line + "\n" + long_line + "\nend\n") == long_line + "\nend");
  CHECK(last_words_of(std::string(100'000, 'y')) == std::string(StderrTail::kBytes, 'y'));
}

TEST_CASE("of a progress line only its last state is kept") {
  CHECK(last_words_of("\r1%\r2%\r3%\nboom\r\n\rafter\r") == "3%\nboom\nafter");
}

}  // namespace
}  // namespace ddprun::launcher
