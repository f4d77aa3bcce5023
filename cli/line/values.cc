// SPDX-License-Identifier: Apache-2.0
#include "cli/line/values.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <netinet/in.h>

#include "base/number.h"
#include "base/text.h"

namespace ddprun::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLongestRunId = 256;

constexpr int kMostRank = std::numeric_limits<int>::max();

struct Unit {
  std::string_view name;
  double milliseconds;
};
constexpr std::array<Unit, 7> kUnits = {{{"", 1e3},
                                         {"ms", 1},
                                         {"s", 1e3},
                                         {"m", 60e3},
                                         {"min", 60e3},
                                         {"h", 3'600e3},
                                         {"d", 86'400e3}}};

bool is_name(std::string_view text) {
  const auto is_good = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_good);
}

/// Parses an IPv6 address, with the name of an interface or without, as in "fe80::1%eth0".
std::optional<in6_addr> ipv6(std::string_view text) {
  if (text.find('\0') != text.npos) return std::nullopt;  // inet_pton would stop there
  const size_t percent = text.find('%');
  if (percent != text.npos && !is_name(text.substr(percent + 1))) return std::nullopt;
  in6_addr address;
  const std::string bare(text.substr(0, percent));
  return inet_pton(AF_INET6, bare.c_str(), &address) == 1 ? std::optional(address) : std::nullopt;
}

bool is_ipv6(std::string_view text) {
  return ipv6(text).has_value();
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  const std::optional<int> port = parse_count(text, 0, 65'535);
  if (!port) return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

std::optional<HostPort> host_port(std::optional<std::string> host,
                                  std::optional<std::uint16_t> port) {
  if (!host || !port) return std::nullopt;
  return HostPort{std::move(*host), port};
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const size_t end = text.find_last_not_of(' ') + 1;
  return text.substr(begin, std::max(begin, end) - begin);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t comma = text.find(',');
    words.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    text.remove_prefix(comma + 1);
  }
}

std::optional<int> parse_count(std::string_view text, int least, int most) {
  return whole_number(text, least, most);
}

std::optional<bool> parse_switch(std::string_view text) {
  using Limits = std::numeric_limits<int>;
  const std::optional<int> number = parse_count(text, Limits::min(), Limits::max());
  return number ? std::optional(*number != 0) : std::nullopt;
}

std::optional<milliseconds> parse_time(std::string_view text, milliseconds least) {
  // No from_chars and no llround: they would make each start load the mathematics library.
  // strtod accepts other forms, too, such as "inf" or "0x10", but they contain other characters.
  const std::string numeral(text.substr(0, text.find_first_not_of("0123456789.eE+-")));
  char* rest = nullptr;
  const double number = std::strtod(numeral.c_str(), &rest);
  if (rest == numeral.c_str() || numeral.front() == '+') return std::nullopt;
  const auto name = text.substr(static_cast<size_t>(rest - numeral.c_str()));
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                 [name](const Unit& candidate) { return candidate.name == name; });
  if (unit == kUnits.end()) return std::nullopt;

  const double exact = number * unit->milliseconds;
  if (exact < 0 || exact > static_cast<double>(kLongestTime.count())) return std::nullopt;
  const milliseconds shortest(exact > 0 ? 1 : 0);
  const auto time = std::max(
      shortest, std::chrono::round<milliseconds>(std::chrono::duration<double, std::milli>(exact)));
  return time >= least ? std::optional(time) : std::nullopt;
}

std::optional<bool> parse_truth(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* yes : {"true", "t", "yes", "y", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "f", "no", "n", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::optional<std::string> parse_host(std::string_view text) {
  const bool brackets = text.size() >= 2 && text.starts_with('[') && text.ends_with(']');
  if (brackets) text = text.substr(1, text.size() - 2);
  if (is_ipv6(text) || (!brackets && is_name(text))) return std::string(text);
  return std::nullopt;
}

std::optional<std::string> parse_address(std::string_view text) {
  std::optional<std::string> host = parse_host(text);
  in_addr address;
  if (!host || is_ipv6(*host) || inet_pton(AF_INET, host->c_str(), &address) == 1) return host;
  return std::nullopt;
}

bool is_link_local(std::string_view address) {
  const auto of_ipv6 = ipv6(address);
  return of_ipv6 && IN6_IS_ADDR_LINKLOCAL(&*of_ipv6);
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  if (std::optional<std::string> host = parse_host(text)) {
    return HostPort{std::move(*host), std::nullopt};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view host = text.substr(0, colon);
  const std::optional<std::uint16_t> port = parse_port(text.substr(colon + 1));
  if (host.empty()) return host_port(std::string(), port);
  // "fe80::1:70000" is a wrong address, not one with a port.
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return bare_ipv6 ? std::nullopt : host_port(parse_host(host), port);
}

std::optional<launcher::StreamMasks> parse_masks(std::string_view text) {
  constexpr int kMostMask = launcher::StreamMasks::kBoth;
  launcher::StreamMasks masks;
  if (const std::optional<int> mask = parse_count(text, 0, kMostMask)) {
    masks.others = static_cast<unsigned>(*mask);
    return masks;
  }
  for (const std::string_view pair : split(text)) {
    const size_t colon = std::min(pair.find(':'), pair.size());
    const auto rank = parse_count(pair.substr(0, colon), 0, kMostRank);
    const auto mask = parse_count(pair.substr(std::min(colon + 1, pair.size())), 0, kMostMask);
    if (!rank || !mask) return std::nullopt;
    masks.named[*rank] = static_cast<unsigned>(*mask);
  }
  return masks;
}

std::optional<std::set<int>> parse_ranks(std::string_view text) {
  std::set<int> ranks;
  for (const std::string_view word : split(text)) {
    const auto rank = parse_count(word, 0, kMostRank);
    if (!rank) return std::nullopt;
    ranks.insert(*rank);
  }
  return ranks;
}

std::optional<std::vector<std::string>> parse_texts(std::string_view text) {
  std::vector<std::string> texts(1);
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',') {
      texts.back() += text[at];
    } else if (at + 1 < text.size() && text[at + 1] == ',') {
      texts.back() += text[at++];
    } else {
      texts.emplace_back();
    }
  }
  const bool good = std::none_of(texts.begin(), texts.end(),
                                 [](const std::string& each) { return each.empty(); });
  return good ? std::optional(std::move(texts)) : std::nullopt;
}

std::optional<std::vector<std::string>> parse_modules(std::string_view text) {
  const auto is_module = [](std::string_view name) {
    const auto is_part = [](char c) {
      return c == '_' || c == '.' || (c & 0x80) != 0 || std::isalnum(static_cast<unsigned char>(c));
    };
    return name.front() != '.' && name.back() != '.' && name.find("..") == name.npos &&
           std::all_of(name.begin(), name.end(), is_part);
  };
  auto modules = parse_texts(text);
  const bool good = modules && std::all_of(modules->begin(), modules->end(), is_module);
  return good ? std::move(modules) : std::nullopt;
}

bool is_run_id(std::string_view text) {
  return !text.empty() && text.size() <= kLongestRunId &&
         text.find_first_of("\t\n") == std::string_view::npos && printable(text) == text;
}

}  // namespace ddprun::cli
