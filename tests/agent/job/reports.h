// SPDX-License-Identifier: Apache-2.0
// Failures for tests of reports.
#pragma once

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "agent/job/outcome.h"
#include "agent/job/report.h"

namespace ddprun::agent {

using rendezvous::Failed;
using rendezvous::Failure;

constexpr int exited(int code) {
  return code << 8;
}  // as wait(2) stores it
constexpr int killed_by(int signal) {
  return signal;
}

inline Failure segfault() {
  return {2,
          killed_by(SIGSEGV),
          48121,
          41.37,
          "gpu-07",
          "",
          "step 812: loss nan\nAddressSanitizer: SEGV on unknown address 0x000000000010",
          "",
          ""};
}

/// The end of a job in round 0 by this failure, without other workers.
inline Failed ended_by(Failure failure) {
  return {std::move(failure), 0, "", "no restarts were asked for (--max_restarts N)"};
}

inline auto lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') + 1;
}

}  // namespace ddprun::agent
