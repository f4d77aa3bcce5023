// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as stderr of a remote ddprun, and as its workers' output there. Workers' bytes
// arrive as written, none is taken for ddprun's line, and cuts change nothing.
//
// Input: one byte, the size of a piece less one, then the bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "fuzz/feed.h"
#include "fuzz/target.h"
#include "launcher/output/line_queue.h"

namespace {

using namespace ddprun;
using namespace ddprun::launcher;
using fuzz::require;
using Lines = std::vector<std::string>;

struct Taken {
  std::string rest;
  Lines lines;

  bool operator==(const Taken&) const = default;
};

Taken take_apart(std::string_view stream, std::size_t piece) {
  MarkedLines lines;
  Taken taken;
  for (const std::string_view each : fuzz::pieces_of(stream, piece)) {
    taken.rest += lines.take(each, [&](std::string_view line) { taken.lines.emplace_back(line); });
  }
  return taken;
}

void check_stream(std::string_view stream, std::size_t piece) {
  const Taken taken = take_apart(stream, piece);
  require(taken == take_apart(stream, stream.size()), "lines do not depend on the cuts");
  for (const std::string& line : taken.lines) {
    require(line.find_first_of(std::string{log::kMark, '\n'}) == line.npos, "a line is one");
  }
}

/// Checks workers' bytes with a line of ddprun between two of them.
void check_workers_bytes(std::string_view bytes, std::size_t piece) {
  require(has_marks(bytes) == (without_marks(bytes) != bytes), "bytes without marks stay");
  require(take_apart(without_marks(bytes), piece) == Taken{std::string(bytes), {}},
          "workers' bytes arrive, and are no line of ddprun");
  const std::size_t middle = bytes.size() / 2;
  const std::string stream = without_marks(bytes.substr(0, middle)) + log::kMark + "ready\n" +
                             without_marks(bytes.substr(middle));
  require(take_apart(stream, piece) == Taken{std::string(bytes), {"ready"}},
          "the line of ddprun alone is taken");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = std::size_t{1} + data[0];
  check_stream(bytes, piece);
  check_workers_bytes(bytes, piece);
  return 0;
}
