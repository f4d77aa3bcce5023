// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// A set of streams, per local rank. Pure.
struct StreamMasks {
  static constexpr unsigned kStdout = 1;
  static constexpr unsigned kStderr = 2;
  static constexpr unsigned kBoth = kStdout | kStderr;

  unsigned others = 0;            ///< for local ranks that are not in `named`
  std::map<int, unsigned> named;  ///< by local rank

  bool holds(int local_rank, unsigned stream) const {
    const auto its = named.find(local_rank);
    return ((its == named.end() ? others : its->second) & stream) != 0;
  }
  bool any() const {
    return others != 0 || std::any_of(named.begin(), named.end(),
                                      [](const auto& mask) { return mask.second != 0; });
  }
};

/// The destinations of the workers' output: by default only the console. Plain data.
struct LogSpec {
  StreamMasks redirects;               ///< to a file and not to the console
  StreamMasks tees;                    ///< to a file and the console; overrides redirects
  std::optional<std::set<int>> shown;  ///< local ranks on the console; nullopt: all
  std::vector<std::string> duplicate_out_filters;  ///< copy lines with one of these texts
  std::vector<std::string> duplicate_err_filters;

  bool wants_files() const {
    return redirects.any() || tees.any() || !duplicate_out_filters.empty() ||
           !duplicate_err_filters.empty();
  }
};

}  // namespace ddprun::launcher
