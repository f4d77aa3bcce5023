// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/command_output.h"

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a command's output is returned, and words before it are its variables") {
  CHECK(must(output_of({"WORD=seen", "sh", "-c", "echo \"$WORD $1\"; exit 3", "sh", "twice"},
                       60s)) == "seen twice\n");
  CHECK(must(output_of({"sh", "-c", "echo lost >&2"}, 60s)).empty());
  CHECK(must(output_of({"there-is-no-such-program"}, 60s)).empty());
}

TEST_CASE("a command that does not end is killed") {
  const auto output = output_of({"A=b", "sleep", "1000"}, 50ms);
  REQUIRE_FALSE(output.has_value());
  CHECK(output.error().code == Errc::timed_out);
  CHECK(tests::contains(output.error().message, "sleep did not answer in"));
}

TEST_CASE("no more than 64 KiB of a command's output are read") {
  CHECK(must(output_of({"head", "-c", "1000000", "/dev/zero"}, 60s)).size() <= 68 * 1024);
}

}  // namespace
}  // namespace ddprun::launcher
