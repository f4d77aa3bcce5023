// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/work.h"

namespace ddp::internal {

/// For destructors: memory of a call may go when it has ended. The group's next call throws the
/// error of one that failed.
inline void wait_for_end(const Work& work) {
  try {
    work.wait();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

}  // namespace ddp::internal
