// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

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
