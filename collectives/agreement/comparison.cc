// SPDX-License-Identifier: Apache-2.0
#include "collectives/agreement/comparison.h"

#include "collectives/agreement/agreed_error.h"
#include "collectives/call/blocks.h"
#include "collectives/call/route.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

bool fit(const Announced& ours, const Announced& theirs) {
  return ours.call == theirs.call && ours.counts.sends == theirs.counts.expects &&
         ours.counts.expects == theirs.counts.sends;
}

}  // namespace

Call collective_call(const GroupContext& context, const Task& task, std::uint64_t number) {
  return {.number = number,
          .count = is_unequal(task.operation) ? 0 : task.count,
          .root = context.named(task.root),
          .operation = task.operation,
          .type = static_cast<std::uint8_t>(task.type),
          .reduce = static_cast<std::uint8_t>(task.reduce)};
}

/// Each rank sends each other one the block of data that is combined there.
std::vector<Counts> counts_of(const Task& task, int rank, int size) {
  std::vector<Counts> counts(static_cast<std::size_t>(size));
  if (!is_unequal(task.operation)) return counts;
  const Blocks blocks(task.send_counts, task.count, size);
  const Route route(task, rank, size);
  for (int other = 0; other < size; ++other) {
    counts[static_cast<std::size_t>(other)] =
        reduces(task.operation)
            ? Counts{.sends = blocks.count(other), .expects = blocks.count(rank)}
            : Counts{.sends = route.to(other).bytes / route.width(),
                     .expects = route.from(other).bytes / route.width()};
  }
  return counts;
}

std::optional<std::string> difference(const Announced& ours, const Announced& theirs,
                                      const std::string& other) {
  if (fit(ours, theirs)) return std::nullopt;
  const std::string start = "is at " + describe(ours.call);
  if (theirs.call != ours.call) {
    return start + ", but " + other + " is at " + describe(theirs.call);
  }
  if (theirs.counts.sends != ours.counts.expects) {
    return start + " and expects " + std::to_string(ours.counts.expects) + " elements of " + other +
           ", which sends " + std::to_string(theirs.counts.sends);
  }
  return start + " and sends " + std::to_string(ours.counts.sends) + " elements to " + other +
         ", which expects " + std::to_string(theirs.counts.expects);
}

void check_fits(const GroupContext& context, const Call& during, const Announced& ours,
                const Announced& theirs, int other) {
  if (fit(ours, theirs)) return;
  throw agree_on(context, "in " + describe(during), ErrorKind::mismatch,
                 difference(ours, theirs, name_ranks({context.named(other)})).value(),
                 {.number = ours.call.number});
}

}  // namespace ddp::internal
