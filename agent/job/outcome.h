// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "launcher/process/exit_status.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// Every worker ended with exit code 0.
struct JobSucceeded {};

/// A worker failed and the job was not restarted.
struct JobFailed {
  int code;  ///< ExitStatus::code() of the root cause: its exit code, or 128 + signal
};

/// A signal stopped ddprun.
struct Interrupted {
  int signal;
};

/// How a job ended for this node. Error: ddprun itself or the rendezvous failed.
using Outcome = std::variant<JobSucceeded, JobFailed, Interrupted, Error>;

/// The outcome on a node whose master, at `master_addr`, sent `ending`.
Outcome outcome_of(const rendezvous::Ending& ending, std::string_view master_addr = "");

/// A hint after a sentence about what is `missing`, if nodes are, and if every host takes the
/// master's address for its own. Else empty.
std::string loopback_hint(std::string_view master_addr, std::string_view missing);

/// ddprun's exit code after `error`: see cli/exit_code.h.
int exit_code(const Error& error);

/// The failure of a worker that could not be started because of `error`, with the exit code that a
/// shell would return.
rendezvous::Failure start_failure(const Error& error, int rank, const std::string& host);

/// How the worker of `failure` ended; the rendezvous transports the bare number.
launcher::ExitStatus exit_status(const rendezvous::Failure& failure);

}  // namespace ddprun::agent
