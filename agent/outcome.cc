// SPDX-License-Identifier: Apache-2.0
#include "agent/outcome.h"

namespace ddprun::agent {

Outcome outcome_of(const rendezvous::Ending& ending) {
  if (const auto* failed = std::get_if<rendezvous::Failed>(&ending)) {
    return JobFailed{exit_status(failed->root_cause).code()};
  }
  if (const auto* timed_out = std::get_if<rendezvous::TimedOut>(&ending)) {
    return Error{Errc::timed_out, timed_out->sentence};
  }
  return JobSucceeded{};
}

launcher::ExitStatus exit_status(const rendezvous::Failure& failure) {
  return launcher::ExitStatus(failure.wait_status);
}

}  // namespace ddprun::agent
