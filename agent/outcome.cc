// SPDX-License-Identifier: Apache-2.0
#include "agent/outcome.h"

#include "launcher/exit_status.h"

namespace ddprun::agent {

Outcome outcome_of(const rendezvous::Ending& ending) {
  if (const auto* failed = std::get_if<rendezvous::Failed>(&ending)) {
    return WorkerFailed{launcher::ExitStatus(failed->root_cause.wait_status).code()};
  }
  if (const auto* timed_out = std::get_if<rendezvous::TimedOut>(&ending)) {
    return Error{Errc::timed_out, timed_out->sentence};
  }
  return Succeeded{};
}

}  // namespace ddprun::agent
