// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher {

/// The end of what a worker has written, both streams as they came: for whoever asks later. Pure.
class RecentOutput {
 public:
  /// At least so much of it is kept.
  static constexpr size_t kKept = 64 * 1024;

  struct Piece {
    std::uint64_t from = 0;  ///< bytes that the worker wrote before it
    std::string bytes;
  };

  void add(std::string_view bytes);

  /// All bytes so far, also those that are not kept.
  std::uint64_t end() const { return end_; }

  /// The output after the first `from` bytes, as far as it is kept: the first `most` bytes of it.
  Piece after(std::uint64_t from, size_t most) const;

 private:
  std::string kept_;  // at most 2 * kKept, so that bytes are moved seldom
  std::uint64_t end_ = 0;
};

}  // namespace ddprun::launcher
