// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Scripts that make a shell complete ddprun's command lines. Pure.

namespace ddprun::cli {

/// A script for `shell`, which is bash, zsh or fish: to be sourced, or to be put where the shell
/// looks for those of commands.
std::string completion(std::string_view shell);

}  // namespace ddprun::cli
