// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <string>

#include "tests/catch.h"
#include "tests/contains.h"

using namespace ddprun;

TEST_CASE("a line with text from another host cannot control the terminal") {
  std::string written;
  log::set_writer([&](std::string_view line) { written += line; });
  log::info("refused evil\x1b]0;owned\x07 and \xc2\x9b[2J, gpu-\xc3\xa4\nsecond");
  log::set_writer({});
  CHECK(written ==
        "ddprun: refused evil\\x1b]0;owned\\x07 and \\xc2\\x9b[2J, gpu-\xc3\xa4\n        second\n");
}

TEST_CASE("a line shows its host if there are several nodes, and its time if wanted") {
  using namespace std::chrono;
  const auto at = system_clock::time_point(milliseconds(1'795'456'310'007));
  CHECK(log::text_line({log::Level::info, "gpu-07", "one\ntwo", at}, false) ==
        "ddprun: [gpu-07] one\n        two\n");
  CHECK(log::text_line({log::Level::info, "", "one", at}, true) ==
        "2026-11-23T17:51:50.007Z ddprun: one\n");
  CHECK(log::text_line({log::Level::info, "evil\x1b[2J", "one", at}, false) ==
        "ddprun: [evil\\x1b[2J] one\n");
}

TEST_CASE("a JSON message is one line, whatever it contains") {
  using namespace std::chrono;
  const auto at = system_clock::time_point(milliseconds(-1));
  CHECK(log::json_line({log::Level::error, "a", "x\n\"\x1b\xff", at}) ==
        R"({"time":"1969-12-31T23:59:59.999Z","level":"error","host":"a",)"
        "\"message\":\"x\\n\\\"\\u001b\xef\xbf\xbd\"}\n");
  CHECK_FALSE(tests::contains(log::json_line({log::Level::info, "", "x", at}), "host"));
}

TEST_CASE("a relayed message arrives unchanged, with its level") {
  const auto line = log::decode_relayed([] {
    std::string text = log::relayed_line({log::Level::warning, "a", "one\n two\x1f\x1e", {}});
    CHECK(text.find('\n') == text.size() - 1);
    text.pop_back();
    return text;
  }());
  REQUIRE(line.has_value());
  CHECK(line->level == log::Level::warning);
  CHECK(line->text == "one\n two\\x1f\\x1e");
  for (const char* other : {"", "ready", "said", "said loud x", "said error", "ddprun: x"}) {
    CHECK_FALSE(log::decode_relayed(other).has_value());
  }
}
