// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ddp/export.h"

namespace ddp {

/// Writes the last 2,048 calls that this process began, in all its groups, to the file `path`, as
/// JSON (docs/collectives.md has the fields). A file of that name is replaced, in one step.
///
/// ddp writes the same, by itself, to rank_R.json in the folder DDP_TRACE_DIR when a group fails.
///
/// Errors: system (the file cannot be written). Thread: any, also while calls are under way.
DDP_EXPORT void write_trace(const std::string& path);

}  // namespace ddp
