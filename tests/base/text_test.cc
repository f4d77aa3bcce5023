// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include "tests/catch.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

TEST_CASE("durations are written in readable units") {
  CHECK(duration_text(-1s) == "0 ms");
  CHECK(duration_text(900us) == "0 ms");
  CHECK(duration_text(12ms) == "12 ms");
  CHECK(duration_text(999'999us) == "999 ms");
  CHECK(duration_text(1s) == "1 s");
  CHECK(duration_text(41'370ms) == "41.3 s");
  CHECK(duration_text(59'999ms) == "59.9 s");
  CHECK(duration_text(60s) == "1 min");
  CHECK(duration_text(96s) == "96 s");
  CHECK(duration_text(517s) == "517 s");
  CHECK(duration_text(10min) == "10 min");
  CHECK(duration_text(59min + 59s) == "59 min");
  CHECK(duration_text(1h) == "1 h");
  CHECK(duration_text(3h + 12min + 40s) == "3 h 12 min");
  CHECK(duration_text(47h + 59min) == "47 h 59 min");
  CHECK(duration_text(98h) == "4 d 2 h");
}

TEST_CASE("seconds for JSON are rounded to whole milliseconds") {
  CHECK(whole_milliseconds(0) == 0);
  CHECK(whole_milliseconds(1.23449) == 1.234);
  CHECK(whole_milliseconds(1.2345001) == 1.235);
  CHECK(whole_milliseconds(100'000.0004) == 100'000);
}

TEST_CASE("runs of ranks are joined") {
  CHECK(compress_ranks({}).empty());
  CHECK(compress_ranks({3}) == "3");
  CHECK(compress_ranks({3, 1, 0}) == "0, 1, 3");
  CHECK(compress_ranks({2, 0, 1, 1}) == "0-2");
  CHECK(compress_ranks({0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 127}) == "0-6, 8-10, 127");
  CHECK(compress_ranks({0, 2, 4, 6, 8}, 2) == "0, 2 and 3 more");
}

TEST_CASE("a line of a backtrace is demangled, other lines are unchanged") {
  CHECK(with_cxx_name("./a(b)(_Z8write_toPi+0x1f)") == "./a(b)(write_to(int*)+0x1f)");
  for (const char* line :
       {"", "(", "./train(main+0x1f)", "./train(+0x1f)", "./train(_Z8write_toPi",
        "./train(_Z?+0x1f)", "./train(f+0x1f)", "  File \"a(b+c).py\", line 3"}) {
    CHECK(with_cxx_name(line) == line);
  }
}

TEST_CASE("control characters and invalid UTF-8 are escaped") {
  CHECK(printable("plain\ttext\n") == "plain\ttext\n");
  CHECK(printable("\x1b[31m\r\x7f") == "\\x1b[31m\\x0d\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  CHECK(printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82") ==
        "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // C1: begins an escape sequence, too
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // half a surrogate pair
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");           // cut short
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace ddprun
