// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "base/error.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// Every worker ended with exit code 0.
struct Succeeded {};

/// A worker failed and no restart was left.
struct WorkerFailed {
  int code;  ///< ExitStatus::code() of the root cause: its exit code, or 128 + signal
};

/// ddprun was told to stop.
struct Interrupted {
  int signal;
};

/// How a job ended for this node; an Error is a failure of ddprun's own or of the rendezvous.
using Outcome = std::variant<Succeeded, WorkerFailed, Interrupted, Error>;

/// The same as every node is told it.
Outcome outcome_of(const rendezvous::Ending& ending);

}  // namespace ddprun::agent
