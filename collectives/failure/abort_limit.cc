// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/abort_limit.h"

#include "collectives/errors.h"

namespace ddp::internal {

AbortLimit::AbortLimit(const std::string& of, std::chrono::milliseconds timeout)
    : EndLimit(of + " did not end within " + name_time(limit_of_abort(timeout)) +
                   " after they were aborted, as they do not while a CUDA graph has some: ending "
                   "the process",
               limit_of_abort(timeout)) {}

}  // namespace ddp::internal
