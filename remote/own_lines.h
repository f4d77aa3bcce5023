// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::remote {

/// The own lines of a job's ddpruns. Most of them, such as the report, are the same on each host,
/// and are shown once. A text may have several lines. Pure.
class OwnLines {
 public:
  explicit OwnLines(size_t hosts) : hosts_(hosts) {}

  /// Whether to show a text of `host`: the host has now printed it more often than any host before.
  bool is_new(size_t host, std::string_view text);

 private:
  /// With more numbers than this, all counts are forgotten: a text may then be shown twice.
  static constexpr size_t kMostNumbers = size_t{1} << 20;

  struct Count {
    std::vector<unsigned> said;  // by each host
    unsigned shown = 0;
  };

  size_t hosts_;
  std::unordered_map<std::string, Count> counts_;
};

}  // namespace ddprun::remote
