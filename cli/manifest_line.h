// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "cli/line/flags.h"
#include "cli/manifest/manifest.h"

// The command line of `ddprun manifest`. Pure.

namespace ddprun::cli {

/// Whether a flag may be in the pods' command line. For the others Kubernetes has the value, or
/// they make no sense in a pod.
bool is_for_pods(const Flag& flag);

/// The output of `ddprun manifest words...`: the manifest, or its help. Errors: usage.
Result<std::string> manifest_output(std::span<const char* const> words);

}  // namespace ddprun::cli
