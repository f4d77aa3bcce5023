// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/allocation.h"

// Pure.

namespace ddprun::engine {

using Variables = std::map<std::string, std::string, std::less<>>;

/// nullptr: it is not set, or empty.
const std::string* find(const Variables& variables, std::string_view name);

/// A whole number from 0 to `most`; nullopt: not set. Errors: usage, with name and value.
Result<std::optional<Known<int>>> find_number(const Variables& variables, std::string_view name,
                                              int most);

/// A moment in seconds since 1970; nullopt: not set, or not such a number.
std::optional<Known<std::chrono::sys_seconds>> find_time(const Variables& variables,
                                                         std::string_view name);

/// "NAME=value", for messages.
std::string text_of(const Variables& variables, std::string_view name);

/// Sets hosts, nodes and master to `hosts`, which come from `source`.
void take_hosts(Allocation& allocation, Hosts hosts, const std::string& source);

/// The same, and sets this node's rank: its position in `hosts`. Errors: usage (`own`, this host's
/// name, is not among them).
Result<> place_among(Allocation& allocation, Hosts hosts, const std::string& source,
                     std::string_view own);

}  // namespace ddprun::engine
