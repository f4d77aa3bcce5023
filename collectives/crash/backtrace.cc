// SPDX-License-Identifier: Apache-2.0
#include "collectives/crash/backtrace.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace ddp::internal {
namespace {

constexpr std::size_t kLongestLine = 512;  // for one frame; all lines fit into a FixedString
constexpr int kLongestCycle = 8;           // functions that call each other, to be listed once

// backtrace_symbols_fd() writes to a descriptor; this pipe is read back.
std::array<int, 2> symbol_pipe = {-1, -1};

/// Appends "./train(main+0x1f)" for "./train(main+0x1f)[0x55d1]\n", in ASCII.
void append_without_address(std::string_view line, FixedString& text) {
  line = line.substr(0, line.find_last_of('['));
  for (char c : line) {
    const bool ascii = c >= 0x20 && c < 0x7f;
    text << std::string_view(ascii ? &c : "?", 1);
  }
}

/// How often the `length` frames from `first` on (towards the innermost) repeat right after.
int count_repeats(const void* const* frames, int first, int length, int skip) {
  const auto is_same = [&](int i) { return frames[i] == frames[i - length]; };
  int same = 0;
  for (int i = first; i - length >= skip && is_same(i); --i) ++same;
  return same / length;
}

/// Appends the line about frame `index`.
void append_frame(void* const* frames, int index, int skip, FixedString& text) {
  // A call that never returns may be the last instruction of its function; then its return address
  // belongs to the next function. The address before it does not.
  const bool is_return_address = skip == 0 || index > skip;
  void* const address = static_cast<char*>(frames[index]) - (is_return_address ? 1 : 0);
  backtrace_symbols_fd(&address, 1, symbol_pipe[1]);
  std::array<char, kLongestLine> line{};
  const ssize_t size = read(symbol_pipe[0], line.data(), line.size());
  if (size <= 0) return;
  text << "  ";
  append_without_address({line.data(), static_cast<std::size_t>(size)}, text);
  text << "\n";
  std::array<char, 512> rest{};
  while (read(symbol_pipe[0], rest.data(), rest.size()) > 0) continue;  // a very long name
}

}  // namespace

FixedString& FixedString::operator<<(std::string_view text) {
  const std::size_t size = std::min(text.size(), room());
  std::copy_n(text.data(), size, bytes_.data() + size_);
  size_ += size;
  return *this;
}

FixedString& FixedString::operator<<(std::uint64_t number) {
  std::array<char, 20> digits{};
  std::size_t first = digits.size();
  do {
    digits[--first] = kHexDigits[number % 10];
    number /= 10;
  } while (number > 0);
  return *this << std::string_view(digits.data() + first, digits.size() - first);
}

FixedString& FixedString::hex(std::uint64_t number) {
  std::array<char, 16> digits{};
  std::size_t first = digits.size();
  do {
    digits[--first] = kHexDigits[number & 15];
    number >>= 4;
  } while (number > 0);
  return *this << "0x" << std::string_view(digits.data() + first, digits.size() - first);
}

void Backtrace::append_to(FixedString& text, int skip) const {
  for (int index = count - 1; index >= skip;) {
    int cycle = 1;
    while (cycle <= kLongestCycle && count_repeats(frames.data(), index, cycle, skip) < 2) ++cycle;
    const int repeats =
        cycle > kLongestCycle ? 0 : count_repeats(frames.data(), index, cycle, skip);
    const int last = index - (repeats > 0 ? cycle : 1);
    for (int i = index; i > last; --i) append_frame(frames.data(), i, skip, text);
    const int left_out = repeats * cycle;
    index = last - left_out;
    if (left_out == 0) continue;
    text << "  ... " << static_cast<std::uint64_t>(left_out) << " more like ";
    if (cycle == 1) {
      text << "it\n";
    } else {
      text << "these " << static_cast<std::uint64_t>(cycle) << "\n";
    }
  }
}

void prepare_backtraces() {
  if (pipe2(symbol_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) symbol_pipe = {-1, -1};
  // The first call loads libgcc, which allocates memory: backtrace(3).
  Backtrace here;
  here.capture();
  static FixedString unused;
  here.append_to(unused, 0);
}

}  // namespace ddp::internal
