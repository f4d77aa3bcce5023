// SPDX-License-Identifier: Apache-2.0
#include "engine/allocation.h"

#include <algorithm>
#include <cstdint>

#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"

namespace ddprun::engine {

std::vector<std::uint16_t> ports_of(std::string_view job) {
  constexpr unsigned kFirst = 10'000, kPorts = 20'000, kCandidates = 4;
  Fnv32 hash;
  hash.add(job);
  std::vector<std::uint16_t> ports;
  for (unsigned i = 0; i < kCandidates; ++i) {
    ports.push_back(static_cast<std::uint16_t>(kFirst + (hash.value() + i * 4'999) % kPorts));
  }
  return ports;
}

const std::string* find(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

Result<std::optional<Sourced<int>>> find_number(const Variables& variables, std::string_view name,
                                                int most) {
  const std::string* text = find(variables, name);
  if (text == nullptr) return std::optional<Sourced<int>>();
  if (const auto number = whole_number(*text, 0, most)) {
    return std::optional(Sourced<int>{*number, std::string(name)});
  }
  return Error{Errc::usage,
               text_of(variables, name) + " is not a number from 0 to " + std::to_string(most)};
}

std::optional<Sourced<std::chrono::sys_seconds>> find_time(const Variables& variables,
                                                           std::string_view name) {
  const std::string* text = find(variables, name);
  if (text == nullptr) return std::nullopt;
  constexpr std::int64_t kLatest = 9'000'000'000;  // the year 2255: system_clock has nanoseconds
  const auto seconds = whole_number<std::int64_t>(*text, 1, kLatest);
  if (!seconds) return std::nullopt;
  return Sourced<std::chrono::sys_seconds>{std::chrono::sys_seconds(std::chrono::seconds(*seconds)),
                                           std::string(name)};
}

std::string text_of(const Variables& variables, std::string_view name) {
  const std::string* value = find(variables, name);
  return std::string(name) + "=" + (value ? printable(cut(*value, 200)) : "");
}

void take_hosts(Allocation& allocation, Hosts hosts, const std::string& source) {
  allocation.nodes = {static_cast<int>(hosts.size()), source};
  allocation.master = {hosts.front(), source};
  allocation.hosts = std::move(hosts);
}

Result<> place_among(Allocation& allocation, Hosts hosts, const std::string& source,
                     std::string_view own) {
  const auto position = std::find_if(hosts.begin(), hosts.end(), [own](const std::string& host) {
    return is_same_host(host, own);
  });
  if (position == hosts.end()) {
    return Error{Errc::usage, "this host, " + printable(cut(std::string(own), 200)) +
                                  ", is not one of the " + std::to_string(hosts.size()) + " in " +
                                  source + " (" + printable(cut(hosts.front(), 200)) +
                                  (hosts.size() > 1 ? " ...)" : ")") +
                                  ": the allocation is elsewhere"};
  }
  allocation.node_rank = {static_cast<int>(position - hosts.begin()), source};
  take_hosts(allocation, std::move(hosts), source);
  return {};
}

}  // namespace ddprun::engine
