// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a worker's output. Lines and the tail of stderr do not depend on how the bytes
// are cut, no byte is lost, and the printed text is safe for a terminal.
//
// Input: one byte, the size of a piece less one, then the stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "fuzz/feed.h"
#include "fuzz/target.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/recent_output.h"

namespace {

using namespace ddprun;
using namespace ddprun::launcher;
using fuzz::pieces_of;
using fuzz::require;

std::string lines_of(std::string_view stream, std::size_t piece, const std::string& prefix) {
  LineQueue queue(false);
  LineSplitter splitter(prefix, Buffering::line);
  for (const std::string_view each : pieces_of(stream, piece)) splitter.feed(each, queue);
  splitter.finish(queue);
  return std::string(queue.pending());
}

std::string tail_of(std::string_view stream, std::size_t piece) {
  StderrTail tail;
  for (const std::string_view each : pieces_of(stream, piece)) tail.feed(each);
  return tail.text();
}

void check_lines(std::string_view stream, std::size_t piece) {
  require(lines_of(stream, piece, "[0] ") == lines_of(stream, stream.size(), "[0] "),
          "lines do not depend on the cuts");
  const std::string plain = lines_of(stream, piece, "");
  require(plain.starts_with(stream) && plain.size() <= stream.size() + 1, "no byte is lost");
}

void check_tail(std::string_view stream, std::size_t piece) {
  const std::string tail = tail_of(stream, stream.size());
  require(tail == tail_of(stream, piece), "the tail does not depend on the cuts");
  require(tail.size() <= StderrTail::kBytes, "the tail is bounded");
  require(std::count(tail.begin(), tail.end(), '\n') < StderrTail::kLines, "so are its lines");
}

void check_text(const std::string& text) {
  const std::string safe = printable(text);
  const bool controls = std::any_of(safe.begin(), safe.end(), [](char c) {
    return (c >= 0 && c < ' ' && c != '\t' && c != '\n') || c == '\x7f';
  });
  require(!controls, "no control character is printed");
  require(printable(safe) == safe, "what is safe stays as it is");
  require(cut(safe, 100).size() <= 103, "a text is cut");
  with_cxx_name(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = std::size_t{1} + data[0];
  check_lines(stream, piece);
  check_tail(stream, piece);
  check_text(std::string(stream));
  return 0;
}
