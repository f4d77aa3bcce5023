// SPDX-License-Identifier: Apache-2.0
#include "agent/web/access.h"

#include <algorithm>
#include <cctype>

namespace ddprun::agent::web {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kScheme = "http://";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

/// Whether browsers take `host` for an IPv4 address. Nobody can register such a name.
bool is_ipv4(std::string_view host) {
  return std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](char c) { return is_digit(c) || c == '.'; });
}

/// "host" of "host" or "host:port", with the brackets of an IPv6 address. Empty: it is neither.
std::string_view host_in(std::string_view authority) {
  const size_t bracket = authority.find(']');
  const size_t from = bracket == std::string_view::npos ? 0 : bracket;
  const size_t colon = std::min(authority.find(':', from), authority.size());
  const std::string_view port = authority.substr(colon);
  const bool is_port = port.empty() || std::ranges::all_of(port.substr(1), is_digit);
  return is_port ? authority.substr(0, colon) : std::string_view();
}

}  // namespace

bool is_same_secret(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (one[i] ^ other[i]));
  }
  return difference == 0;
}

bool Access::is_own_name(std::string_view authority) const {
  const std::string host = lower(host_in(authority));
  const bool is_ipv6 = host.starts_with('[') && host.ends_with(']');
  return is_ipv4(host) || is_ipv6 || host == "localhost" ||
         (!host.empty() && host == lower(host_name_));
}

bool Access::admits(const ask::Question& question) const {
  if (!is_own_name(question.host)) return false;
  if (!question.origin.empty() && question.origin != std::string(kScheme) + question.host) {
    return false;
  }
  if (is_same_secret(ask::query_value(question.query, "token"), token_)) return true;
  const std::string_view bearer = question.authorization;
  return bearer.starts_with(kBearer) && is_same_secret(bearer.substr(kBearer.size()), token_);
}

}  // namespace ddprun::agent::web
