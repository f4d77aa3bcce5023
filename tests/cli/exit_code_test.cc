// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <csignal>

#include "tests/catch.h"

using namespace ddprun;

TEST_CASE("the exit code says how the job ended") {
  CHECK(cli::exit_code(agent::JobSucceeded{}) == 0);
  CHECK(cli::exit_code(agent::JobFailed{7}) == 7);
  CHECK(cli::exit_code(agent::JobFailed{128 + SIGSEGV}) == 139);
  CHECK(cli::exit_code(agent::Interrupted{SIGINT}) == 130);
}

TEST_CASE("the exit code says why ddprun could not run the job") {
  CHECK(cli::exit_code(Error{Errc::left_out, ""}) == 1);
  CHECK(cli::exit_code(Error{Errc::usage, ""}) == 2);
  CHECK(cli::exit_code(Error{Errc::timed_out, ""}) == 124);
  CHECK(cli::exit_code(Error{Errc::port_in_use, ""}) == 125);
  CHECK(cli::exit_code(Error{Errc::system, ""}) == 125);
  CHECK(cli::exit_code(Error{Errc::unreachable, ""}) == 125);
  CHECK(cli::exit_code(Error{Errc::closed, ""}) == 125);
  CHECK(cli::exit_code(Error{Errc::protocol, ""}) == 125);
  CHECK(cli::exit_code(Error{Errc::not_executable, ""}) == 126);
  CHECK(cli::exit_code(Error{Errc::not_found, ""}) == 127);
}
