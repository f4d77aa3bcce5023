// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "cli/host.h"
#include "cli/line/flags.h"
#include "cli/line/raw_options.h"

// Where the values of flags are from: the command line, before the environment, before a
// configuration file, before what a scheduler says of its job, before the default.

namespace ddprun::cli {

/// Gives the option of `flag` this value; `source` is for people and begins its errors: the flag,
/// the variable, the key of a file. Errors: usage.
Result<> set_option(const Flag& flag, const std::string& value, const std::string& source,
                    RawOptions& raw);

/// The flags that the command line gives.
using GivenFlags = std::span<const Flag* const>;

/// Sets what the command line does not give from the configuration file `named` there, else by
/// DDPRUN_CONFIG, else from ddprun.toml in the current directory; what overrides it is left out.
/// Call it first. Errors: usage.
Result<> set_from_config(const std::optional<std::string>& named, GivenFlags given, Mode mode,
                         const Host& host, RawOptions& raw);

/// Sets what the command line does not give from the environment. Errors: usage.
Result<> set_from_environment(GivenFlags given, Mode mode, const Host& host, RawOptions& raw);

/// The settings that are not from the command line: "settings: --nproc_per_node 4 (ddprun.toml:1),
/// --max_restarts 3 (PET_MAX_RESTARTS)"; empty: nothing is.
std::string settings_text(const RawOptions& raw);

}  // namespace ddprun::cli
