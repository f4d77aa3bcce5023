// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/line/flags.h"
#include "cli/manual/page.h"

// All help texts, the same for --help, `ddprun help` and the pages of the manual, and other texts
// that ddprun has about itself. Pure.

namespace ddprun::cli {

/// The page of `ddprun ls`, `status` and the other commands that ask running jobs.
constexpr std::string_view kVerbsPage = "status";

/// A command, ddprun's first word, and its purpose. In the list, commands on the same page are
/// neighbours.
struct CommandName {
  std::string_view name;     ///< "serve"
  std::string_view page;     ///< its name for page_of
  std::string_view summary;  ///< "runs only the rendezvous of a job"
};

/// All commands. A user runs a program of such a name as ./NAME.
std::span<const CommandName> command_names();

/// The page ddprun-NAME(1), or ddprun(1) for an empty name. `name` is the page of a command.
Page page_of(std::string_view name);

/// The spelling of a flag, such as "--redirects, --redirect, -r MASK", and its meaning.
Item item_of(const Flag& flag);

/// The output of `ddprun -h`: the usage, the flags that most jobs need, all topics, and examples.
std::string short_help();

/// The output of `ddprun help words...`. A topic is a command, a heading of ddprun's page or a
/// flag; without one it is the short help. "--man NAME" is the manual page of this name, for the
/// build, and "--schema" is config_schema(). Errors: usage.
Result<std::string> help_output(std::span<const char* const> words);

/// The JSON schema of ddprun.toml, for editors: each flag that a file may set, with its help. It
/// accepts what parse_config accepts.
std::string config_schema();

/// The output of --version: the version, the commit at the configuration of the build, the type of
/// the build, and the libraries in it. Builds of the same sources with the same packages have the
/// same text.
std::string version_text();

}  // namespace ddprun::cli
