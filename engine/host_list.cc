// SPDX-License-Identifier: Apache-2.0
#include "engine/host_list.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/number.h"
#include "base/text.h"

namespace ddprun::engine {
namespace {

constexpr size_t kMostDigits = 9;
constexpr int kMostTasks = 1 << 20;

Error wrong(std::string_view what, std::string_view text) {
  return {Errc::usage, std::string(what) + " in '" + printable(cut(std::string(text), 200)) + "'"};
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// A number without sign; nullopt: it is not one, or above `most`.
std::optional<int> number_of(std::string_view text, int most) {
  return text.size() > kMostDigits ? std::nullopt : whole_number(text, 0, most);
}

/// Appends the numbers of "0-3" or "007", with the width of the first. False: it is invalid.
bool append_range(std::string_view range, Hosts& numbers) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const auto first = number_of(low, 999'999'999);
  const auto last = number_of(high, 999'999'999);
  if (!first || !last || *last < *first) return false;
  if (static_cast<size_t>(*last - *first) >= kMostHosts - numbers.size()) return false;
  for (int i = *first; i <= *last; ++i) {
    std::string digits = std::to_string(i);
    if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return true;
}

/// Appends each of `ends` to each of `names`. False: they are too many.
bool append_each(Hosts& names, const Hosts& ends) {
  if (ends.size() > kMostHosts / names.size()) return false;
  Hosts longer;
  longer.reserve(names.size() * ends.size());
  for (const std::string& name : names) {
    for (const std::string& end : ends) longer.push_back(name + end);
  }
  names = std::move(longer);
  return true;
}

/// Removes one name with its brackets from `rest` and appends its hosts. False: it is invalid.
bool append_name(std::string_view& rest, Hosts& hosts) {
  Hosts names = {""};
  bool is_empty = true;
  while (!rest.empty() && rest.front() != ',') {
    is_empty = false;
    if (rest.front() == '[') {
      const size_t end = rest.find(']');
      if (end == std::string_view::npos || end == 1) return false;
      std::string_view ranges = rest.substr(1, end - 1);
      if (ranges.back() == ',') return false;
      Hosts numbers;
      while (!ranges.empty()) {
        if (!append_range(take_piece(ranges, ','), numbers)) return false;
      }
      if (!append_each(names, numbers)) return false;
      rest.remove_prefix(end + 1);
    } else {
      const size_t end = std::min(rest.find_first_of("[,"), rest.size());
      const std::string_view plain = rest.substr(0, end);
      if (std::any_of(plain.begin(), plain.end(), [](char c) { return is_space(c) || c == ']'; })) {
        return false;
      }
      for (std::string& name : names) name += plain;
      rest.remove_prefix(end);
    }
  }
  if (is_empty || names.size() > kMostHosts - hosts.size()) return false;
  std::move(names.begin(), names.end(), std::back_inserter(hosts));
  return true;
}

/// Collects each host once, in order.
class DistinctHosts {
 public:
  void add(std::string_view host) {
    if (known_.emplace(host).second) hosts_.emplace_back(host);
  }
  Result<Hosts> result(std::string_view text) {
    if (hosts_.empty()) return wrong("no host", text);
    if (hosts_.size() > kMostHosts) return wrong("too many hosts", text);
    return std::move(hosts_);
  }

 private:
  std::set<std::string, std::less<>> known_;
  Hosts hosts_;
};

}  // namespace

Result<Hosts> expand_host_list(std::string_view text) {
  Hosts hosts;
  std::string_view rest = text;
  for (;;) {
    if (!append_name(rest, hosts)) return wrong("invalid list of hosts", text);
    if (rest.empty()) return hosts;
    rest.remove_prefix(1);  // the comma
  }
}

Result<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  std::string_view rest = text;
  do {
    const bool has_more = rest.find(',') != std::string_view::npos;
    std::string_view piece = take_piece(rest, ',');
    int times = 1;
    if (piece.ends_with(')')) {
      const size_t open = piece.find("(x");
      if (open == std::string_view::npos) return wrong("invalid counts", text);
      times = number_of(piece.substr(open + 2, piece.size() - open - 3), kMostHosts).value_or(0);
      piece = piece.substr(0, open);
    }
    const auto count = number_of(piece, kMostTasks);
    if (!count || times < 1 || counts.size() + static_cast<size_t>(times) > kMostHosts ||
        (has_more && rest.empty())) {
      return wrong("invalid counts", text);
    }
    counts.insert(counts.end(), static_cast<size_t>(times), *count);
  } while (!rest.empty());
  return counts;
}

Result<Hosts> hosts_of_lines(std::string_view text) {
  DistinctHosts hosts;
  for (std::string_view rest = text; !rest.empty();) {
    const auto words = words_between_blanks(take_piece(rest, '\n'));
    if (words.size() > 1) return wrong("more than one host on a line", text);
    if (!words.empty()) hosts.add(words.front());
  }
  return hosts.result(text);
}

Result<Hosts> hosts_of_table(std::string_view text) {
  DistinctHosts hosts;
  for (std::string_view rest = text; !rest.empty();) {
    const auto words = words_between_blanks(take_piece(rest, '\n'));
    if (words.empty()) continue;
    if (words.size() < 2 || !number_of(words[1], kMostTasks)) {
      return wrong("a line that is not 'host slots queue processors'", text);
    }
    hosts.add(words.front());
  }
  return hosts.result(text);
}

Result<Hosts> hosts_of_pairs(std::string_view text) {
  DistinctHosts hosts;
  const auto words = words_between_blanks(text);
  if (words.size() % 2 != 0) return wrong("a host without its number", text);
  for (size_t i = 0; i < words.size(); i += 2) {
    if (!number_of(words[i + 1], kMostTasks)) return wrong("a host without its number", text);
    hosts.add(words[i]);
  }
  return hosts.result(text);
}

bool is_same_host(std::string_view a, std::string_view b) {
  const bool a_is_short = a.find('.') == std::string_view::npos;
  const bool b_is_short = b.find('.') == std::string_view::npos;
  if (a_is_short != b_is_short) {
    a = a.substr(0, a.find('.'));
    b = b.substr(0, b.find('.'));
  }
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace ddprun::engine
