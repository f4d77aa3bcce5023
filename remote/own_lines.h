// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::remote {

/// Own lines of the ddpruns of a job: most of them, such as the report, are the same on each host,
/// and are shown once. A text may have several lines. Pure.
class OwnLines {
 public:
  explicit OwnLines(size_t hosts) : hosts_(hosts) {}

  /// Whether a text of `host` is to be shown: the host has now printed it more often than any host
  /// before.
  bool is_new(size_t host, std::string_view text);

 private:
  /// Beyond so many numbers what was counted is forgotten: a text may then be shown twice.
  static constexpr size_t kMostNumbers = size_t{1} << 20;

  struct Count {
    std::vector<unsigned> said;  // by each host
    unsigned shown = 0;
  };

  size_t hosts_;
  std::unordered_map<std::string, Count> counts_;
};

}  // namespace ddprun::remote
