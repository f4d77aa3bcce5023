// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ddp/work.h"

namespace ddp::internal {

struct GroupMember;

/// The next step of the ranks that still have inputs; ranks without inputs take part in it.
enum class NextStep : std::uint8_t { buffers, pass };

/// Announces the steps of passes with uneven inputs. Before each common step, ranks with inputs
/// announce it and the others ask for it, in one all_reduce of a number. Thread: one at a time.
class Announcements {
 public:
  explicit Announcements(GroupMember& group) : group_(group) {}
  Announcements(const Announcements&) = delete;
  Announcements& operator=(const Announcements&) = delete;
  ~Announcements();

  /// This rank has inputs, and begins this step.
  void begin(NextStep step);

  /// Waits for the call of begin(), if there was one.
  void wait();

  /// Whether a call of begin() was not waited for.
  bool is_begun() const { return work_.has_value(); }

  /// This rank has no inputs. Blocks until the others begin a step. Returns nothing if no rank has
  /// inputs.
  std::optional<NextStep> ask();

  /// The lowest rank that had inputs at the last step; 0 before the first.
  int last_rank() const { return last_rank_; }

 private:
  void begin_with(std::int32_t number);

  GroupMember& group_;
  std::int32_t number_ = 0;  ///< this rank's; when the call is done, the lowest of all
  std::optional<Work> work_;
  int last_rank_ = 0;
};

}  // namespace ddp::internal
