// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/line/flags.h"
#include "cli/manual/page.h"

// All texts of help: --help, `ddprun help` and the pages of the manual have the same. Pure.

namespace ddprun::cli {

/// The page of `ddprun ls`, `status` and the others that ask a running job.
constexpr std::string_view kVerbsPage = "status";

/// A command, ddprun's first word, and what it is for. Those of the same page are beside each
/// other.
struct CommandName {
  std::string_view name;     ///< "serve"
  std::string_view page;     ///< of page_of
  std::string_view summary;  ///< "runs only the rendezvous of a job"
};

/// All commands: a program of such a name is run as ./NAME.
std::span<const CommandName> command_names();

/// The page ddprun-NAME(1), or ddprun(1) for an empty name. `name` is the page of a command.
Page page_of(std::string_view name);

/// How a flag is written, such as "--redirects, --redirect, -r MASK", and what it means.
Item item_of(const Flag& flag);

}  // namespace ddprun::cli
