// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string_view>

namespace ddprun::bench {

/// The lines that bench_lines prints: "@RANK NUMBER abc...\n", each different and 100 bytes long,
/// so that their content shows a torn, lost or duplicate line.
class OutputLine {
 public:
  static constexpr size_t kSize = 100;

  OutputLine(int rank, int number) {
    std::memcpy(text_, "@000 0000000 ", 13);
    put(rank, 3);
    put(number, 11);
    // The letters shift from line to line, so a line with the end of another is detected.
    const int shift = number % 26;
    std::memcpy(text_ + 13, kLetters.data() + shift, kSize - 14);
    text_[kSize - 1] = '\n';
  }

  std::string_view text() const { return {text_, kSize}; }

 private:
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
      "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";

  void put(int value, int last) {
    for (int at = last; value > 0; --at, value /= 10) {
      text_[at] = static_cast<char>('0' + value % 10);
    }
  }

  char text_[kSize];
};

}  // namespace ddprun::bench
