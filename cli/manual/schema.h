// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::cli {

/// The JSON schema of ddprun.toml, for editors: each flag that a file may set, with its help. It
/// accepts what parse_config accepts. Pure.
std::string config_schema();

}  // namespace ddprun::cli
