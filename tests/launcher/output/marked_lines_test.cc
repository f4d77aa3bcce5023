// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "launcher/output/line_queue.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

struct Taken {
  std::string rest;
  std::vector<std::string> lines;
};

/// Reads the stream in pieces of `size` bytes.
Taken take_apart(std::string_view stream, size_t size) {
  MarkedLines lines;
  Taken taken;
  for (size_t at = 0; at < stream.size(); at += size) {
    taken.rest += lines.take(stream.substr(at, size),
                             [&](std::string_view line) { taken.lines.emplace_back(line); });
  }
  return taken;
}

TEST_CASE("marked lines are taken out of a stream, wherever its reads end") {
  const std::string stream =
      "one\n\x1eready\ntwo\n\x1e"
      "ddprun: x\n\n\x1e\nthree";
  for (size_t size = 1; size <= stream.size(); ++size) {
    const Taken taken = take_apart(stream, size);
    CHECK(taken.rest == "one\ntwo\n\nthree");
    CHECK(taken.lines == std::vector<std::string>{"ready", "ddprun: x", ""});
  }
}

TEST_CASE("no byte of a worker is a mark, and each arrives as written") {
  std::string written =
      "\x1e"
      "ended 0\n\n\x1e\x10\x1e\x1e\n\x10^\x10P\x10\n\n\x10\x1e"
      "ended 0\n";
  for (int c = 0; c < 256; ++c) written += static_cast<char>(c);
  const std::string stream = without_marks(written);
  CHECK(has_marks(written));
  CHECK(stream.find('\x1e') == stream.npos);
  for (size_t size = 1; size <= stream.size(); ++size) {
    const Taken taken = take_apart(stream, size);
    CHECK(taken.rest == written);
    CHECK(taken.lines.empty());
  }
  CHECK_FALSE(has_marks("a line\n"));
  CHECK(without_marks("a line\n") == "a line\n");
}

TEST_CASE("a queue's lines are ddprun's only if it appended them itself") {
  LineQueue queue(false);
  queue.escape_marks();
  queue.append(
      "[0] \x1e"
      "ended 0");
  queue.append(
      "\n\x1e"
      "ended 1\n");
  queue.append_own(
      "\x1e"
      "ended 2\n");
  const Taken taken = take_apart(queue.pending(), 1);
  CHECK(taken.rest ==
        "[0] \x1e"
        "ended 0\n\x1e"
        "ended 1\n");
  CHECK(taken.lines == std::vector<std::string>{"ended 2"});
}

TEST_CASE("a marked line is found behind a line that a killed process left unfinished") {
  for (const std::string unfinished : {"a line", "\x10",
                                       "\x1e"
                                       "said err"}) {
    CHECK(take_apart(unfinished + "\x1e"
                                  "ended 137\n",
                     1)
              .lines == std::vector<std::string>{"ended 137"});
  }
}

TEST_CASE("a marked line without end is kept up to a MiB") {
  MarkedLines lines;
  std::string taken;
  const auto take = [&](std::string_view line) { taken = line; };
  CHECK(lines.take("\x1e" + std::string(3 << 20, 'x'), take).empty());
  CHECK(lines.take("y\nrest", take) == "rest");
  CHECK(taken == std::string(1 << 20, 'x'));
}

}  // namespace
}  // namespace ddprun::launcher
