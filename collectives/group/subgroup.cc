// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/subgroup.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <sys/utsname.h>
#include <utility>

#include "collectives/agreement/process_end.h"
#include "collectives/group/objects.h"

namespace ddp::internal {
namespace {

/// Returns a text that is the same in all processes on one machine, and on no other machine.
std::string machine_id() {
  utsname names{};
  ::uname(&names);
  return boot_id() + " " + names.nodename;
}

}  // namespace

std::vector<int> check_members(GroupMember& group, std::span<const int> ranks) {
  const auto name = [&](int rank) { return "rank " + std::to_string(group.context.named(rank)); };
  const std::string own = "ddp: " + name(group.context.rank);
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::usage, own + ": new_group of " + what);
  };
  if (ranks.empty()) refuse("no ranks");
  for (const int listed : ranks) {
    const std::string named = "rank " + std::to_string(listed);
    if (listed < 0 || listed >= group.context.size) {
      refuse(named + ", but ranks are 0 to " + std::to_string(group.context.size - 1));
    }
    if (std::ranges::count(ranks, listed) > 1) refuse(named + " twice");
  }
  const std::string_view list{reinterpret_cast<const char*>(ranks.data()), ranks.size_bytes()};
  const auto lists = all_gather_object(group, list);
  const auto other = std::ranges::find_if(lists, [&](const auto& one) { return one != list; });
  if (other != lists.end()) {
    throw Error(group.calls->fail(
        Error(ErrorKind::mismatch, own + " makes a new_group of other ranks than " +
                                       name(static_cast<int>(other - lists.begin())))));
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<int> members_by_color(GroupMember& group, int color, int key) {
  const std::array<std::int32_t, 2> own = {color, key};
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(group.context.size));
  group.run(group.make.all_gather(own, all));
  std::vector<std::pair<int, int>> keys_and_ranks;
  for (int rank = 0; rank < group.context.size; ++rank) {
    const auto at = 2 * static_cast<std::size_t>(rank);
    if (color >= 0 && all[at] == color) keys_and_ranks.emplace_back(all[at + 1], rank);
  }
  std::ranges::sort(keys_and_ranks);
  std::vector<int> members;
  for (const auto& [_, rank] : keys_and_ranks) members.push_back(rank);
  return members;
}

std::vector<int> members_by_node(GroupMember& group) {
  const std::string own = machine_id();
  const auto machines = all_gather_object(group, own);
  std::vector<int> members;
  for (int rank = 0; rank < group.context.size; ++rank) {
    if (machines[static_cast<std::size_t>(rank)] == own) members.push_back(rank);
  }
  return members;
}

std::optional<GroupContext> subgroup_context(const GroupContext& parent, const std::string& name,
                                             const std::vector<int>& members) {
  if (std::ranges::find(members, parent.rank) == members.end()) return std::nullopt;
  GroupContext context = context_of_part(parent, members);
  context.prefix += name + "/";
  return context;
}

}  // namespace ddp::internal
