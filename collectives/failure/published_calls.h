// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/call_board.h"
#include "collectives/agreement/group_context.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// The place of one group on this process's CallBoard, while the group exists. Groups beyond its
/// slots are not shown; without memory for the board, no group is.
///
/// Thread: one at a time.
class PublishedCalls {
 public:
  explicit PublishedCalls(const GroupContext& context);
  PublishedCalls(const PublishedCalls&) = delete;
  PublishedCalls& operator=(const PublishedCalls&) = delete;
  ~PublishedCalls();

  /// Some stores into one cache line. `open` is the oldest call that has not ended, or null;
  /// `last` the last one that has, or null.
  void publish(std::uint64_t begun, const Call* open, const Call* last) noexcept;

 private:
  ddprun::CallSlot* slot_;  ///< null: not shown
};

}  // namespace ddp::internal
