// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/call/call.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Describes a task that all ranks take part in. Ranks compare the description, and name it in
/// errors. `number` counts the group's calls from 1.
Call collective_call(const GroupContext& context, const Task& task, std::uint64_t number);

/// The elements that a rank sends another in one call, in total, and those that it expects from it.
/// Sent as it lies in memory, without padding.
struct Counts {
  std::uint64_t sends = 0;
  std::uint64_t expects = 0;
};

/// Returns, by rank, the counts between rank `rank` and each rank, for a task whose counts may
/// differ between ranks. For others the call says all, and the counts are 0.
std::vector<Counts> counts_of(const Task& task, int rank, int size);

/// Sent by one rank to another before data moves between the two, as it lies in memory.
struct Announced {
  Call call;
  Counts counts = {};
};

/// Returns what does not fit between this rank and another, which is named `other`: "is at #12
/// barrier, but rank 1 is at #12 all_reduce sum float32[100]"; nullopt if all fits. Pure.
std::optional<std::string> difference(const Announced& ours, const Announced& theirs,
                                      const std::string& other);

/// Throws the agreed error of the call `during` if what the rank `other` announced does not fit.
void check_fits(const GroupContext& context, const Call& during, const Announced& ours,
                const Announced& theirs, int other);

}  // namespace ddp::internal
