// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// Keeps the end of a stream, such as a worker's last lines on stderr, for reports. Pure.
class StderrTail {
 public:
  static constexpr size_t kBytes = 4096;
  static constexpr int kLines = 20;
  /// So much of a stream is enough to find them: two stacks of C++ have some 6 KiB, or more.
  static constexpr size_t kLookedAt = 16UL * 1024;

  void feed(std::string_view bytes);

  /// The last kLines lines that fit into kBytes, without the final newline. Whole lines, unless the
  /// last one alone is longer. A progress line is reduced to its last state. Leaves out the frames
  /// of C++ that PyTorch writes below an error, because the error is above them.
  std::string text() const;

 private:
  std::string tail_;     // at most 2 * kLookedAt
  bool is_cut_ = false;  // tail_ may start in the middle of a line
};

/// The end of a worker's output, both streams in the order of arrival, for later questions. Pure.
class RecentOutput {
 public:
  /// It keeps at least so many bytes.
  static constexpr size_t kKept = 64 * 1024;

  struct Piece {
    std::uint64_t from = 0;  ///< number of bytes that the worker wrote before these
    std::string bytes;
  };

  void add(std::string_view bytes);

  /// The number of all bytes so far, also those that are not kept.
  std::uint64_t end() const { return end_; }

  /// The kept output after the first `from` bytes: its first `most` bytes.
  Piece after(std::uint64_t from, size_t most) const;

 private:
  std::string kept_;  // at most 2 * kKept, so that bytes are rarely moved
  std::uint64_t end_ = 0;
};

}  // namespace ddprun::launcher
