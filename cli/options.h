// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <variant>

#include "agent/job_spec.h"
#include "base/error.h"
#include "cli/host.h"

namespace ddprun::cli {

/// The user asked for words, not for a run: write `text` to stdout and exit with 0.
struct Print {
  std::string text;
};

/// The user asked for the rendezvous alone, `ddprun serve`. Of `job`, what concerns workers says
/// nothing.
struct Serve {
  agent::JobSpec job;
};

using Parsed = std::variant<agent::JobSpec, Print, Serve>;

/// Reads a command line, `ddprun [options] [--] program [args...]` or `ddprun serve [options]`,
/// without argv[0].
///
/// The options end at the first word that is none, or after "--": what follows belongs to the
/// program and is never looked at. A flag given twice: the last one counts. An environment
/// variable is a flag's default; an empty one counts as not set.
///
/// Errors: usage (one line that names the flag, the value, and what would be right), not_found and
/// not_executable (the program cannot be run).
Result<Parsed> parse(std::span<const char* const> words, const Host& host);

}  // namespace ddprun::cli
