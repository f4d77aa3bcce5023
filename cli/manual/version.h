// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// The output of --version. Pure.

namespace ddprun::cli {

/// The version, the commit at the configuration of the build, the type of the build, and the
/// libraries in it. Builds of the same sources with the same packages have the same text.
std::string version_text();

}  // namespace ddprun::cli
