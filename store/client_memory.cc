// SPDX-License-Identifier: Apache-2.0
#include "store/client_memory.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace ddprun::store {
namespace {

using Holders = std::unordered_map<const std::string*, std::size_t>;
using Held = std::pair<std::size_t, ClientId>;  // bytes, and the client that holds them

std::size_t held_by(const Session& session, const Holders& holders) {
  std::size_t bytes = session.own_memory();
  session.for_each_value([&](const Value& value) {
    const std::size_t count = holders.at(value.get());
    const bool stored = static_cast<std::size_t>(value.use_count()) > count;
    if (!stored) bytes += value->size() / count;
  });
  return bytes;
}

}  // namespace

std::vector<ClientId> clients_beyond(const std::vector<ClientSession>& sessions, std::size_t most) {
  Holders holders;
  for (const auto& each : sessions) {
    each.session->for_each_value([&](const Value& value) { ++holders[value.get()]; });
  }
  std::vector<Held> all;
  std::size_t total = 0;
  for (const auto& each : sessions) {
    all.emplace_back(held_by(*each.session, holders), each.client);
    total += all.back().first;
  }
  std::vector<ClientId> beyond;
  if (total <= most) return beyond;
  std::ranges::sort(all, std::greater());
  for (auto next = all.begin(); next != all.end() && total > most / 4 * 3; ++next) {
    beyond.push_back(next->second);
    total -= next->first;
  }
  return beyond;
}

}  // namespace ddprun::store
