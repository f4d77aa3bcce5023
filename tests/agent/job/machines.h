// SPDX-License-Identifier: Apache-2.0
// Machines in the states that tests begin with.
#pragma once

#include "agent/job/machine.h"
#include "tests/catch.h"

namespace ddprun::agent {

/// Checks that the actions have exactly these types, in this order.
template <class... Expected>
void check(const Actions& actions) {
  REQUIRE(actions.size() == sizeof...(Expected));
  size_t i = 0;
  const bool as_expected = (std::holds_alternative<Expected>(actions[i++]) && ...);
  CHECK(as_expected);
}

inline Machine running() {
  Machine m;
  check<action::Join>(m.start());
  check<action::StartWorkers>(m.on(event::RoundReady{}));
  return m;
}

inline Machine draining() {
  Machine m = running();
  check<action::ReportSuccess>(m.on(event::WorkersEnded{}));
  return m;
}

inline event::WorkerFailed rank_fails(int rank) {
  rendezvous::Failure failure;
  failure.rank = rank;
  return {failure};
}

inline event::JobClosed closed_with(int code) {
  return {JobFailed{code}};
}

}  // namespace ddprun::agent
