// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

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
  return agent::exit_code(error);
}

}  // namespace ddprun::cli
