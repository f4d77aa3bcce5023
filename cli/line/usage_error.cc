// SPDX-License-Identifier: Apache-2.0
#include "cli/line/usage_error.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace ddprun::cli {
namespace {

/// The edit distance; two swapped neighbours count once.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::move(last);
    last = std::move(row);
    row.assign(b.size() + 1, i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

Error usage_error(std::string sentence) {
  return {Errc::usage, std::move(sentence)};
}

std::optional<std::string> suggest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t length_gap = candidate.size() > word.size() ? candidate.size() - word.size()
                                                             : word.size() - candidate.size();
    if (length_gap >= best_distance) continue;
    const size_t d = distance(word, candidate);
    if (d < best_distance && d < word.size()) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

std::optional<std::string> name_that_begins_with(std::string_view word,
                                                 const std::vector<std::string>& candidates) {
  const auto longer = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const std::string& name) { return name.starts_with(word); });
  if (longer == candidates.end()) return std::nullopt;
  return *longer;
}

std::string did_you_mean(const std::optional<std::string>& suggestion, std::string_view otherwise) {
  return "; " + (suggestion ? "did you mean " + *suggestion + "?" : std::string(otherwise));
}

}  // namespace ddprun::cli
