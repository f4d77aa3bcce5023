// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ddp/export.h"

namespace ddp {

/// Writes the last 2,048 calls of this process, in all its groups, to the file `path`, as JSON
/// (docs/collectives.md describes the fields). Replaces a file of that name atomically.
///
/// When a group fails, ddp writes the same to rank_R.json in the folder DDP_TRACE_DIR, if it is
/// set.
///
/// Errors: system (the file cannot be written). Thread: any, also while calls are under way.
DDP_EXPORT void write_trace(const std::string& path);

}  // namespace ddp
