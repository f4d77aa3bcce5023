// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/marked_lines.h"

#include <vector>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

TEST_CASE("marked lines are taken out of a stream, wherever its reads end") {
  const std::string stream =
      "one\n\x1eready\nt\x1ewo\n\x1e"
      "ddprun: x\n\n\x1e\nthree";
  for (size_t size = 1; size <= stream.size(); ++size) {
    MarkedLines lines;
    std::vector<std::string> taken;
    std::string rest;
    for (size_t at = 0; at < stream.size(); at += size) {
      rest += lines.take(std::string_view(stream).substr(at, size),
                         [&](std::string_view line) { taken.emplace_back(line); });
    }
    CHECK(rest == "one\nt\x1ewo\n\nthree");
    CHECK(taken == std::vector<std::string>{"ready", "ddprun: x", ""});
  }
}

TEST_CASE("a marked line without end is kept up to a MiB") {
  MarkedLines lines;
  std::string taken;
  const auto take = [&](std::string_view line) { taken = line; };
  CHECK(lines.take("\x1e" + std::string(3 << 20, 'x'), take).empty());
  CHECK(lines.take("y\nrest", take) == "rest");
  CHECK(taken == std::string((1 << 20) - 1, 'x'));
}

}  // namespace
}  // namespace ddprun::launcher
