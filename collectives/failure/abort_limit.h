// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/crash/end_limit.h"

namespace ddp::internal {

/// Ends the process if its scope takes longer than limit_of_abort(timeout): aborting calls may
/// block forever, as NCCL does while a CUDA graph has some. `of` begins the sentence.
class AbortLimit : public EndLimit {
 public:
  AbortLimit(const std::string& of, std::chrono::milliseconds timeout);
};

}  // namespace ddp::internal
