// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <cstdlib>

namespace ddprun::cli {
namespace {

struct Coder {
  int operator()(const agent::JobSucceeded&) const { return 0; }
  int operator()(const agent::JobFailed& failed) const { return failed.code; }
  int operator()(const agent::Interrupted& interrupted) const { return 128 + interrupted.signal; }
  int operator()(const Error& error) const { return exit_code(error); }
};

}  // namespace

int exit_code(const agent::Outcome& outcome) {
  return std::visit(Coder{}, outcome);
}

int exit_code(const Error& error) {
  switch (error.code) {
    case Errc::usage:
      return 2;
    case Errc::timed_out:
      return 124;
    case Errc::not_executable:
      return 126;
    case Errc::not_found:
      return 127;
    case Errc::system:
    case Errc::unreachable:
    case Errc::closed:
    case Errc::protocol:
      return 125;
  }
  std::abort();
}

}  // namespace ddprun::cli
