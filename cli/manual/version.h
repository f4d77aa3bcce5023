// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// The output of --version. Pure.

namespace ddprun::cli {

/// The version, the commit that was checked out when the build was configured, the type of the
/// build, and the libraries in it: the same text for each build of the same sources with the same
/// packages.
std::string version_text();

}  // namespace ddprun::cli
