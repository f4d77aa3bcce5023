// SPDX-License-Identifier: Apache-2.0
#include "agent/job/machine.h"

#include <csignal>
#include <variant>
#include <vector>

#include "tests/agent/job/machines.h"
#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::agent;
using State = Machine::State;

namespace {

template <class T>
const T& only(const Actions& actions) {
  REQUIRE(actions.size() == 1);
  REQUIRE(std::holds_alternative<T>(actions[0]));
  return std::get<T>(actions[0]);
}

}  // namespace

TEST_CASE("a round is joined, run and drained, and the job's end ends the node") {
  Machine m = running();
  check<action::ReportSuccess>(m.on(event::WorkersEnded{}));
  CHECK(m.state() == State::draining);
  const Actions last = m.on(event::JobClosed{JobSucceeded{}});
  CHECK(std::holds_alternative<JobSucceeded>(only<action::Finish>(last).outcome));
  CHECK(m.state() == State::done);
}

TEST_CASE("a failed worker stops its siblings and the node joins again") {
  Machine m = running();
  const Actions actions = m.on(rank_fails(3));
  check<action::ReportFailure, action::StopWorkers>(actions);
  CHECK(std::get<action::ReportFailure>(actions[0]).failure.rank == 3);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGTERM);
  check<>(m.on(rank_fails(2)));  // a sibling that was stopped
  check<action::Join>(m.on(event::WorkersEnded{}));
  CHECK(m.state() == State::joining);
}

TEST_CASE("a failure after which the job is closed ends with the root cause's code") {
  Machine m = running();
  m.on(rank_fails(0));
  check<>(m.on(closed_with(139)));
  check<>(m.on(closed_with(1)));  // the first outcome counts
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 139);
}

TEST_CASE("another node's failure stops the workers and the node joins again") {
  Machine m = running();
  CHECK(only<action::StopWorkers>(m.on(event::RoundBroken{})).signal == SIGTERM);
  check<action::Join>(m.on(event::WorkersEnded{}));
}

TEST_CASE("a job closed elsewhere stops the workers before the node ends") {
  Machine m = running();
  check<action::StopWorkers>(m.on(closed_with(3)));
  CHECK(m.state() == State::stopping);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 3);
}

TEST_CASE("a signal reaches the workers unchanged and ends the node when they are gone") {
  Machine m = running();
  const Actions actions = m.on(event::StopRequested{SIGINT});
  check<action::Leave, action::StopWorkers>(actions);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGINT);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGINT);
}

TEST_CASE("a second signal kills at once and the first one is the outcome") {
  Machine m = running();
  m.on(event::StopRequested{SIGTERM});
  CHECK(only<action::StopWorkers>(m.on(event::StopRequested{SIGINT})).signal == SIGKILL);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a first signal while workers stop for a restart prevents the restart") {
  Machine m = running();
  m.on(rank_fails(1));
  check<action::Leave>(m.on(event::StopRequested{SIGTERM}));
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a request to stop at once kills the workers, and its signal is the outcome") {
  Machine m = running();
  const Actions actions = m.on(event::StopRequested{SIGTERM, true});
  check<action::Leave, action::StopWorkers>(actions);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGKILL);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a request to stop at once kills workers that stop for a restart") {
  Machine m = running();
  m.on(rank_fails(1));
  const Actions actions = m.on(event::StopRequested{SIGTERM, true});
  check<action::Leave, action::StopWorkers>(actions);
  CHECK(std::get<action::StopWorkers>(actions[1]).signal == SIGKILL);
}

TEST_CASE("a signal while workers stop for the job's end hurries them and keeps that end") {
  Machine m = running();
  m.on(rank_fails(1));
  m.on(closed_with(7));
  CHECK(only<action::StopWorkers>(m.on(event::StopRequested{SIGINT})).signal == SIGKILL);
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 7);
}

TEST_CASE("a signal before any worker runs leaves the rendezvous and ends") {
  Machine m;
  m.start();
  const Actions actions = m.on(event::StopRequested{SIGHUP});
  check<action::Leave, action::Finish>(actions);
  CHECK(m.state() == State::done);
}

TEST_CASE("a finished node joins again when another node's failure needs it") {
  Machine m = draining();
  check<action::Join>(m.on(event::RoundBroken{}));
  check<action::StartWorkers>(m.on(event::RoundReady{}));
}

TEST_CASE("a finished node that gets a signal leaves") {
  Machine m = draining();
  check<action::Leave, action::Finish>(m.on(event::StopRequested{SIGTERM}));
}

TEST_CASE("a worker that cannot be started is reported as a failure, and the node joins again") {
  Machine m = running();
  const Actions actions =
      m.on(event::StartFailed{Error{Errc::not_executable, "cannot execute ./train"}, 2});
  check<action::ReportStartFailure, action::StopWorkers>(actions);
  const auto& report = std::get<action::ReportStartFailure>(actions[0]);
  CHECK(report.error.code == Errc::not_executable);
  CHECK(report.local_rank == 2);
  check<>(m.on(event::StartFailed{Error{Errc::not_executable, "cannot execute ./train"}, 3}));
  check<action::Join>(m.on(event::WorkersEnded{}));
}

TEST_CASE("a job that closes before its first round ends the node") {
  Machine m;
  m.start();
  const Actions last = m.on(event::JobClosed{Error{Errc::timed_out, "too few nodes joined"}});
  CHECK(std::get<Error>(only<action::Finish>(last).outcome).code == Errc::timed_out);
}

TEST_CASE("a lease that is over kills the workers at once and the node joins again") {
  Machine m = running();
  CHECK(only<action::StopWorkers>(m.on(event::LeaseOver{})).signal == SIGKILL);
  CHECK(m.state() == State::stopping);
  check<>(m.on(event::RoundBroken{}));  // the master came back, and had continued
  check<action::Join>(m.on(event::WorkersEnded{}));
  check<action::StartWorkers>(m.on(event::RoundReady{}));
}

TEST_CASE("a lease that is over while workers stop takes the rest of their grace") {
  Machine m = running();
  m.on(rank_fails(1));
  CHECK(only<action::StopWorkers>(m.on(event::LeaseOver{})).signal == SIGKILL);
  check<action::Join>(m.on(event::WorkersEnded{}));

  Machine leaving = running();
  leaving.on(event::StopRequested{SIGTERM});
  CHECK(only<action::StopWorkers>(leaving.on(event::LeaseOver{})).signal == SIGKILL);
  const Actions last = leaving.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("a lease that is over while nothing runs changes nothing") {
  Machine joining;
  joining.start();
  check<>(joining.on(event::LeaseOver{}));
  CHECK(joining.state() == State::joining);

  Machine drained = draining();
  check<>(drained.on(event::LeaseOver{}));
  check<action::Join>(drained.on(event::RoundBroken{}));

  Machine done = draining();
  done.on(event::JobClosed{JobSucceeded{}});
  check<>(done.on(event::LeaseOver{}));
  CHECK(done.state() == State::done);
}

TEST_CASE(
    "a round that is broken for good stops the workers and the node joins to get the outcome") {
  Machine m = running();
  CHECK(only<action::StopWorkers>(m.on(event::RoundBroken{true})).signal == SIGTERM);
  check<action::Join>(m.on(event::WorkersEnded{}));
  const Actions last = m.on(closed_with(139));
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 139);
}

TEST_CASE("a signal after the round broke for good hurries the workers and keeps the job's end") {
  const bool failed_here = GENERATE(false, true);
  Machine m = running();
  if (failed_here) m.on(rank_fails(2));
  m.on(event::RoundBroken{true});
  CHECK(only<action::StopWorkers>(m.on(event::StopRequested{SIGTERM})).signal == SIGKILL);
  check<action::Join>(m.on(event::WorkersEnded{}));
  const Actions last = m.on(closed_with(3));
  CHECK(std::get<JobFailed>(only<action::Finish>(last).outcome).code == 3);
}

TEST_CASE("a signal while the node waits for the job's outcome still ends it") {
  Machine m = running();
  m.on(event::RoundBroken{true});
  m.on(event::WorkersEnded{});
  const Actions actions = m.on(event::StopRequested{SIGTERM});
  check<action::Leave, action::Finish>(actions);
  CHECK(std::get<Interrupted>(std::get<action::Finish>(actions[1]).outcome).signal == SIGTERM);
}

TEST_CASE("a round that broke for good has no effect on the next one") {
  Machine m = running();
  m.on(event::RoundBroken{true});
  m.on(event::WorkersEnded{});
  m.on(event::RoundReady{});  // of a restarted master, which does not know of it
  m.on(rank_fails(0));
  check<action::Leave>(m.on(event::StopRequested{SIGTERM}));
  const Actions last = m.on(event::WorkersEnded{});
  CHECK(std::get<Interrupted>(only<action::Finish>(last).outcome).signal == SIGTERM);
}

TEST_CASE("events that a state ignores change nothing") {
  Machine joining;
  joining.start();
  check<>(joining.on(event::RoundBroken{}));
  check<>(joining.on(event::WorkersEnded{}));
  CHECK(joining.state() == State::joining);

  Machine drained = draining();
  check<>(drained.on(rank_fails(0)));
  CHECK(drained.state() == State::draining);

  Machine done = draining();
  done.on(event::JobClosed{JobSucceeded{}});
  check<>(done.on(event::StopRequested{SIGTERM}));
  check<>(done.on(event::RoundReady{}));
  CHECK(done.state() == State::done);
}
