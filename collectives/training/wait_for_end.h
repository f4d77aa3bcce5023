// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/work.h"

namespace ddp::internal {

/// Waits in a destructor: a call's memory may go when the call has ended. If the call failed, the
/// group's next call throws its error.
inline void wait_for_end(const Work& work) {
  try {
    work.wait();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

}  // namespace ddp::internal
