// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/log_spec.h"

namespace ddprun::cli {

// What the words after a flag mean. Pure; nullopt or false: not a right value.

/// Without the spaces around it.
std::string_view trimmed(std::string_view text);

/// A whole number, least <= it <= most.
std::optional<int> parse_count(std::string_view text, int least, int most);

/// The longest time a flag takes: 1000 days. A deadline so far away still fits every clock.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24'000);

/// A span of time from `least` to kLongest: a number of seconds, or with a unit right after it (ms,
/// s, m or min, h, d). Rounded to milliseconds, but never down to none.
std::optional<std::chrono::milliseconds> parse_time(
    std::string_view text, std::chrono::milliseconds least = std::chrono::milliseconds(0));

/// true, t, yes, y, 1 or false, f, no, n, 0; letters of either case.
std::optional<bool> parse_truth(std::string_view text);

/// Where to meet, as it was written.
struct HostPort {
  std::string host;                   ///< without brackets; empty: any address of this host
  std::optional<std::uint16_t> port;  ///< not given: the default
};

/// "HOST", "HOST:PORT" or ":PORT". HOST is a name, an IPv4 address, or an IPv6 address, which
/// needs brackets only before a port.
std::optional<HostPort> parse_host_port(std::string_view text);

/// HOST alone, as above.
std::optional<std::string> parse_host(std::string_view text);

/// HOST alone that is an address and no name.
std::optional<std::string> parse_address(std::string_view text);

/// torchrun's masks, 0 to 3: "MASK" for every worker, or "LOCALRANK:MASK,..." for some, where no
/// other gets one. A rank that is named twice has its last.
std::optional<launcher::StreamMasks> parse_masks(std::string_view text);

/// Numbers from 0 with commas between them.
std::optional<std::set<int>> parse_ranks(std::string_view text);

/// Texts with commas between them; two commas are one in a text. None is empty.
std::optional<std::vector<std::string>> parse_texts(std::string_view text);

/// Whether `text` can name a job, or a role: 1 to 256 bytes of UTF-8 without control characters.
bool is_run_id(std::string_view text);

}  // namespace ddprun::cli
