// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <variant>

#include "agent/job/job_spec.h"
#include "base/error.h"
#include "cli/doctor/job.h"
#include "cli/host.h"
#include "remote/job.h"

namespace ddprun::cli {

/// Write `text` to stdout and exit with 0.
struct Print {
  std::string text;
};

/// Run only the rendezvous, `ddprun serve`. Members of `job` about workers have no meaning.
struct Serve {
  agent::JobSpec job;
};

/// Make a secret, `ddprun secret [FILE]`.
struct MakeSecret {
  std::string file;  ///< empty: print it
};

/// remote::Job: start agents on several hosts.
using Parsed = std::variant<agent::JobSpec, Print, Serve, MakeSecret, remote::Job, doctor::Job>;

/// Reads a command line, `ddprun [options] [--] program [args...]`, `ddprun serve [options]`,
/// `ddprun doctor [options] [[--] program [args...]]`, `ddprun secret [FILE]`, `ddprun manifest
/// KIND ...` or `ddprun help [TOPIC]`, without argv[0].
///
/// The options end before the first other word, or at "--"; the rest belongs to the program and is
/// not read. If a flag is given twice, the last one counts. An environment variable sets the
/// default of a flag; an empty variable counts as not set.
///
/// Errors: usage (one line that names the flag, the value, and a right one), not_found and
/// not_executable (the program cannot be run).
Result<Parsed> parse(std::span<const char* const> words, const Host& host);

}  // namespace ddprun::cli
