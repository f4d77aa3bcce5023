// SPDX-License-Identifier: Apache-2.0
#include "agent/job/outcome.h"

#include <cstdlib>

namespace ddprun::agent {

Outcome outcome_of(const rendezvous::Ending& ending, std::string_view master_addr) {
  if (const auto* failed = std::get_if<rendezvous::Failed>(&ending)) {
    return JobFailed{exit_status(failed->root_cause).code()};
  }
  if (const auto* timed_out = std::get_if<rendezvous::TimedOut>(&ending)) {
    const std::string& sentence = timed_out->sentence;
    return Error{Errc::timed_out, sentence + loopback_hint(master_addr, sentence)};
  }
  return JobSucceeded{};
}

std::string loopback_hint(std::string_view master_addr, std::string_view missing) {
  const bool is_own = master_addr == "localhost" || master_addr == "::1" || master_addr == "::" ||
                      master_addr == "0.0.0.0" || master_addr.starts_with("127.");
  if (!is_own || missing.find(" nodes: have ") == missing.npos) return "";
  return " (other hosts do not reach this one as " + std::string(master_addr) + ")";
}

int exit_code(const Error& error) {
  switch (error.code) {
    case Errc::left_out:
      return 1;
    case Errc::usage:
      return 2;
    case Errc::timed_out:
      return 124;
    case Errc::not_executable:
      return 126;
    case Errc::not_found:
      return 127;
    case Errc::port_in_use:
    case Errc::system:
    case Errc::unreachable:
    case Errc::closed:
    case Errc::protocol:
      return 125;
  }
  std::abort();
}

rendezvous::Failure start_failure(const Error& error, int rank, const std::string& host) {
  rendezvous::Failure failure;
  failure.rank = rank;
  failure.wait_status = exit_code(error) << 8;  // the form of wait(2)
  failure.host = host;
  failure.cause = error.message;
  return failure;
}

launcher::ExitStatus exit_status(const rendezvous::Failure& failure) {
  return launcher::ExitStatus(failure.wait_status);
}

}  // namespace ddprun::agent
