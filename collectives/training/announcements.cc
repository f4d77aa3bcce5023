// SPDX-License-Identifier: Apache-2.0
#include "collectives/training/announcements.h"

#include <limits>

#include "collectives/group/group_member.h"
#include "collectives/training/wait_for_end.h"

namespace ddp::internal {
namespace {

// Twice the rank plus the step: the lowest number names both. All ranks with inputs are at the same
// step.
constexpr std::int32_t kNoInputs = std::numeric_limits<std::int32_t>::max();

}  // namespace

Announcements::~Announcements() {
  if (work_) wait_for_end(*work_);  // the call uses number_
}

void Announcements::begin(NextStep step) {
  begin_with(2 * group_.context.rank + static_cast<std::int32_t>(step));
}

void Announcements::begin_with(std::int32_t number) {
  number_ = number;
  const Buffer all(&number_, 1, data_type<std::int32_t>());
  work_ = group_.begin(group_.make.all_reduce(all, all, ReduceOp::min));
}

void Announcements::wait() {
  if (!work_) return;
  work_->wait();
  work_.reset();
  if (number_ != kNoInputs) last_rank_ = number_ / 2;
}

std::optional<NextStep> Announcements::ask() {
  begin_with(kNoInputs);
  wait();
  if (number_ == kNoInputs) return std::nullopt;
  return static_cast<NextStep>(number_ % 2);
}

}  // namespace ddp::internal
