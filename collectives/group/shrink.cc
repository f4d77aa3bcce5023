// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/shrink.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/group/make_backend.h"
#include "collectives/group/subgroup.h"

namespace ddp::internal {
namespace {

void check_excluded(const GroupContext& group, std::span<const int> excluded) {
  const auto refuse = [&](const std::string& what) {
    throw own_error(group, ErrorKind::usage, ": shrink without " + what);
  };
  if (group.size > 1 && !group.store) {
    throw own_error(group, ErrorKind::usage,
                    ": shrink of ranks of init_local_devices, which are all in this process");
  }
  for (const int rank : excluded) {
    const std::string named = "rank " + std::to_string(rank);
    if (rank < 0 || rank >= group.size) {
      refuse(named + ", but ranks are 0 to " + std::to_string(group.size - 1));
    }
    if (rank == group.rank) refuse(named + ", which is this one");
    if (std::ranges::count(excluded, rank) > 1) refuse(named + " twice");
  }
}

/// Returns the ranks that stay, in ascending order.
std::vector<int> members_without(const GroupContext& group, std::span<const int> excluded) {
  std::vector<int> members;
  for (int rank = 0; rank < group.size; ++rank) {
    if (std::ranges::count(excluded, rank) == 0) members.push_back(rank);
  }
  return members;
}

/// Returns a context that is the same on all ranks that stay. The count tells it from other groups.
GroupContext context_without(GroupMember& group, const std::vector<int>& excluded,
                             const std::vector<int>& members) {
  std::string name = "shrunk/" + std::to_string(group.shrink_count++) + "_without";
  for (const int rank : excluded) name += "_" + std::to_string(rank);
  GroupContext rest = *subgroup_context(group.context, name, members);
  rest.timeout = group.calls->limit();
  return rest;
}

/// Whether `own` is true on every rank of `rest`.
bool is_true_on_all(const GroupContext& rest, const std::string& stem, bool own) {
  const auto key = [&](int rank) { return rest.prefix + stem + "/" + std::to_string(rank); };
  std::vector<std::string> keys;
  for (int rank = 0; rank < rest.size; ++rank) keys.push_back(key(rank));
  std::vector<std::string> answers;
  ask_store(rest, [&](Store& store) { store.set(key(rest.rank), own ? "yes" : "no"); });
  wait_for_all_ranks(rest, stem);
  ask_store(rest, [&](Store& store) { answers = store.multi_get(keys, rest.timeout); });
  return std::ranges::count(answers, "yes") == rest.size;
}

/// Returns null if the rest has to connect again.
std::unique_ptr<Backend> shrink_backend(GroupMember& group, const GroupContext& rest,
                                        const std::vector<int>& excluded) {
  if (group.backend_name != "nccl" || excluded.empty() || rest.size == 1) return nullptr;
  const bool can = !group.calls->has_failed() && group.backend->can_shrink();
  if (!is_true_on_all(rest, "can_shrink", can)) return nullptr;
  return group.backend->shrink(rest, excluded, [&] { return make_host_backend(rest); });
}

}  // namespace

std::vector<int> lost_ranks(const GroupMember& group) {
  const GroupContext& context = group.context;
  std::optional<AgreedError> agreed;
  if (context.store) agreed = find_agreed_error(context);
  std::vector<int> lost;
  for (int rank = 0; agreed && rank < context.size; ++rank) {
    if (std::ranges::count(agreed->facts.lost, context.named(rank)) > 0) lost.push_back(rank);
  }
  if (!lost.empty()) return lost;
  throw own_error(
      context, ErrorKind::usage,
      agreed ? ": shrink without a list, but the failure of the group names no lost rank: " +
                   agreed->sentence
             : ": shrink without a list, but the group has not failed");
}

std::unique_ptr<GroupMember> shrink(GroupMember& group, std::span<const int> excluded) {
  check_excluded(group.context, excluded);
  std::vector<int> sorted(excluded.begin(), excluded.end());
  std::ranges::sort(sorted);  // ranks may list them in different orders
  const GroupContext rest =
      context_without(group, sorted, members_without(group.context, excluded));
  auto connected = shrink_backend(group, rest, sorted);
  group.give_up("went on in a smaller group");
  group.calls->end_watch();  // or a late notice of this failure would break the new group
  return std::make_unique<GroupMember>(rest, group.backend_name, nullptr, std::move(connected));
}

}  // namespace ddp::internal
