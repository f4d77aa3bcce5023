// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "cli/host.h"
#include "cli/line/flags.h"
#include "cli/line/raw_options.h"

// The sources of flags' values, the strongest first: the command line, the environment, a
// configuration file, a scheduler's job, the default.

namespace ddprun::cli {

/// Gives the option of `flag` this value. `source` begins the errors' text: the flag, the variable,
/// or the key of a file. Errors: usage.
Result<> set_option(const Flag& flag, const std::string& value, const std::string& source,
                    RawOptions& raw);

/// The flags that the command line gives.
using GivenFlags = std::span<const Flag* const>;

/// Sets flags that neither the command line nor the environment overrides from a configuration
/// file: the one that the command line has `named`, else that of DDPRUN_CONFIG, else ddprun.toml in
/// the current directory. Call it first. Errors: usage.
Result<> set_from_config(const std::optional<std::string>& named, GivenFlags given, Mode mode,
                         const Host& host, RawOptions& raw);

/// Sets flags that the command line does not give from the environment. Errors: usage.
Result<> set_from_environment(GivenFlags given, Mode mode, const Host& host, RawOptions& raw);

/// The settings that are not from the command line: "settings: --nproc_per_node 4 (ddprun.toml:1),
/// --max_restarts 3 (PET_MAX_RESTARTS)"; empty: there are none.
std::string settings_text(const RawOptions& raw);

}  // namespace ddprun::cli
