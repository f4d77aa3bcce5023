// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// For which streams of which workers something holds. Pure.
struct StreamMasks {
  static constexpr unsigned kStdout = 1;
  static constexpr unsigned kStderr = 2;
  static constexpr unsigned kBoth = kStdout | kStderr;

  unsigned others = 0;            ///< of the local ranks that are not named
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

/// What the user wants of the workers' output besides the console; plain data. By default nothing.
struct LogSpec {
  StreamMasks redirects;                           ///< to a file, and not to the console
  StreamMasks tees;                                ///< to a file and the console; counts more
  std::optional<std::set<int>> shown;              ///< only these are on the console; nullopt: all
  std::vector<std::string> duplicate_out_filters;  ///< copy lines with one of these; empty: none
  std::vector<std::string> duplicate_err_filters;

  bool wants_files() const {
    return redirects.any() || tees.any() || !duplicate_out_filters.empty() ||
           !duplicate_err_filters.empty();
  }
};

}  // namespace ddprun::launcher
