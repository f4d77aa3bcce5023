// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/output/log_spec.h"

namespace ddprun::cli {

// Parsers of the values of flags. Pure; nullopt or false: not a valid value.

/// If there is a value, assigns it to `target`. Returns whether there is.
template <class T, class Target>
bool assign(std::optional<T> value, Target& target) {
  // NOLINTNEXTLINE(bugprone-optional-value-conversion): not every target is an optional
  if (value) target = std::move(*value);
  return value.has_value();
}

/// `text` without leading and trailing spaces.
std::string_view trimmed(std::string_view text);

/// The words between commas; an empty text has one empty word.
std::vector<std::string_view> split(std::string_view text);

/// A whole number from `least` to `most`.
std::optional<int> parse_count(std::string_view text, int least, int most);

/// A switch, on or off, from a number: 0 is off, as in torchrun's variables.
std::optional<bool> parse_switch(std::string_view text);

/// The longest time: 1000 days. A deadline that far away still fits every clock.
constexpr std::chrono::milliseconds kLongestTime = std::chrono::hours(24'000);

/// The shortest time for flags in which 0 makes no sense. A shorter heartbeat interval would only
/// cost CPU time.
constexpr std::chrono::milliseconds kShortestTime{10};

constexpr std::string_view kExpectsTime =
    "a time up to 1000d: seconds, or with a unit such as 500ms, 10min or 1h";
constexpr std::string_view kExpectsNonzeroTime =
    "a time from 10ms to 1000d: seconds, or with a unit such as 500ms, 10min or 1h";

/// A duration from `least` to kLongestTime: a number of seconds, or a number directly followed by a
/// unit (ms, s, m or min, h, d). Rounded to milliseconds; never rounds a positive duration to 0.
std::optional<std::chrono::milliseconds> parse_time(
    std::string_view text, std::chrono::milliseconds least = std::chrono::milliseconds(0));

/// true, t, yes, y, 1 or false, f, no, n, 0, in either case.
std::optional<bool> parse_truth(std::string_view text);

/// Whether `address` is an IPv6 address that needs an interface, as in "fe80::1%eth0".
bool is_link_local(std::string_view address);

/// An endpoint as the user wrote it.
struct HostPort {
  std::string host;                   ///< without brackets; empty: any address of this host
  std::optional<std::uint16_t> port;  ///< nullopt: not given
};

/// "HOST", "HOST:PORT" or ":PORT". HOST is a name, an IPv4 address or an IPv6 address; the last
/// needs brackets only before a port.
std::optional<HostPort> parse_host_port(std::string_view text);

/// "HOST" alone, as above.
std::optional<std::string> parse_host(std::string_view text);

/// "HOST" that is an IP address, not a name.
std::optional<std::string> parse_address(std::string_view text);

/// torchrun's masks, 0 to 3: "MASK" for every worker, or "LOCALRANK:MASK,..." for some; the others
/// get 0. The last mask of a rank wins.
std::optional<launcher::StreamMasks> parse_masks(std::string_view text);

/// Comma-separated numbers >= 0.
std::optional<std::set<int>> parse_ranks(std::string_view text);

/// Comma-separated texts, none of them empty. A doubled comma is a comma in a text.
std::optional<std::vector<std::string>> parse_texts(std::string_view text);

/// Comma-separated names of Python modules.
std::optional<std::vector<std::string>> parse_modules(std::string_view text);

/// Whether `text` is a valid name of a job or a role: 1 to 256 bytes of UTF-8 without control
/// characters.
bool is_run_id(std::string_view text);

}  // namespace ddprun::cli
