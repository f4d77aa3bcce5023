// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/announced.h"

namespace ddp::internal {

std::optional<std::string> difference(const Announced& ours, const Announced& theirs,
                                      const std::string& other) {
  const std::string start = "is at " + describe(ours.call);
  if (theirs.call != ours.call) {
    return start + ", but " + other + " is at " + describe(theirs.call);
  }
  if (theirs.sends != ours.expects) {
    return start + " and expects " + std::to_string(ours.expects) + " elements of " + other +
           ", which sends " + std::to_string(theirs.sends);
  }
  if (theirs.expects != ours.sends) {
    return start + " and sends " + std::to_string(ours.sends) + " elements to " + other +
           ", which expects " + std::to_string(theirs.expects);
  }
  return std::nullopt;
}

}  // namespace ddp::internal
