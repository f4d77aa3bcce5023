// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/job/outcome.h"
#include "rendezvous/layout.h"

// DECIDES what this node does: every event gives the actions to take, in order. Pure: no clock, no
// socket, no process. It has no counter and no retry policy: it always asks to join again, and the
// rendezvous answers with a round or with the end of the job.
//
// tests/agent/job/machine_table_test.cc compares it with the code. "> X" is a change of state,
// "it" the event's error or outcome, "ending" is set when this node knows how it ends, and
// "ends_job" when the answer to Join will say so, because the round was broken for good.
//
// clang-format off
//  event \ state  | joining             | running                    | stopping               | draining
//  ---------------+---------------------+----------------------------+------------------------+---------------------
//  RoundReady     | > running;          | -                          | -                      | -
//                 |  ends_job = no;     |                            |                        |
//                 |  StartWorkers       |                            |                        |
//  StartFailed    | -                   | > stopping;                | - (one was enough)     | -
//                 |                     |  ReportStartFailure,       |                        |
//                 |                     |  StopWorkers(TERM)         |                        |
//  WorkerFailed   | -                   | > stopping; ReportFailure, | - (a worker that we    | -
//                 |                     |  StopWorkers(TERM)         |  stopped)              |
//  WorkersEnded   | -                   | > draining; ReportSuccess  | ending ?               | -
//                 |                     |                            |  > done;               |
//                 |                     |                            |  Finish(ending) :      |
//                 |                     |                            |  > joining; Join       |
//  RoundBroken    | - (late news)       | > stopping;                | ends_job = its         | > joining; Join
//                 |                     |  ends_job = its;           |                        |
//                 |                     |  StopWorkers(TERM)         |                        |
//  JobClosed      | > done; Finish(it)  | > stopping; ending = it;   | ending ? -             | > done; Finish(it)
//                 |                     |  StopWorkers(TERM)         |  : ending = it         |
//  LeaseOver      | -                   | > stopping;                | StopWorkers(KILL)      | - (nothing runs)
//                 |                     |  StopWorkers(KILL)         |                        |
//  StopRequested  | > done; Leave,      | > stopping;                | ending or ends_job ?   | > done; Leave,
//                 |  Finish(interrupted)|  ending = interrupted;     |  StopWorkers(KILL) :   |  Finish(interrupted)
//                 |                     |  Leave,                    |  ending = interrupted; |
//                 |                     |  StopWorkers(its signal)   |  Leave                 |
//  StopRequested, | > done; Leave,      | > stopping;                | ending or ends_job ?   | > done; Leave,
//    at once      |  Finish(interrupted)|  ending = interrupted;     |  StopWorkers(KILL) :   |  Finish(interrupted)
//                 |                     |  Leave, StopWorkers(KILL)  |  ending = interrupted; |
//                 |                     |                            |  Leave,                |
//                 |                     |                            |  StopWorkers(KILL)     |
// clang-format on
//
// done ignores everything. A dash is a deliberate "nothing to do", not a gap.

namespace ddprun::agent {

namespace event {

struct RoundReady {
  rendezvous::Layout layout;
};
/// A worker could not be started; others may run.
struct StartFailed {
  Error error;
  int local_rank = 0;
};
struct WorkerFailed {
  rendezvous::Failure failure;
};
/// All processes of the round's workers on this node have ended.
struct WorkersEnded {};
struct RoundBroken {
  bool ends_job = false;  ///< by a failure: the answer to the next Join is the job's outcome
};
/// The master may continue without this node: none of its workers may run any longer.
struct LeaseOver {};
/// The job is over.
struct JobClosed {
  Outcome outcome;
};
/// The user or the system asks this node to stop, with this signal.
struct StopRequested {
  int signal;
  bool at_once = false;  ///< kill the workers without a grace period
};

}  // namespace event

using Event =
    std::variant<event::RoundReady, event::StartFailed, event::WorkerFailed, event::WorkersEnded,
                 event::RoundBroken, event::LeaseOver, event::JobClosed, event::StopRequested>;

namespace action {

/// Ask to be part of the next round.
struct Join {};
struct StartWorkers {
  rendezvous::Layout layout;
};
struct ReportFailure {
  rendezvous::Failure failure;
};
/// Report the failure of a worker that never ran.
struct ReportStartFailure {
  Error error;
  int local_rank;
};
struct ReportSuccess {};
/// A second one shortens the grace period.
struct StopWorkers {
  int signal;
};
/// Report that this node takes no further part.
struct Leave {
  int signal;  ///< the signal that ddprun got
};
struct Finish {
  Outcome outcome;
};

}  // namespace action

using Action = std::variant<action::Join, action::StartWorkers, action::ReportFailure,
                            action::ReportStartFailure, action::ReportSuccess, action::StopWorkers,
                            action::Leave, action::Finish>;
using Actions = std::vector<Action>;

class Machine {
 public:
  enum class State { joining, running, stopping, draining, done };

  /// The first actions; call once, before any event.
  Actions start();

  Actions on(const Event& event);

  State state() const { return state_; }

 private:
  Actions while_joining(const Event& event);
  Actions while_running(const Event& event);
  Actions while_stopping(const Event& event);
  Actions while_draining(const Event& event);

  Actions finish(Outcome outcome);
  Actions leave_and_finish(int signal);
  Actions join();
  Actions stop_workers(int signal);

  State state_ = State::joining;
  std::optional<Outcome> ending_;  ///< how this node ends, once that is decided
  bool ends_job_ = false;          ///< the round was broken for good; JobClosed follows a Join
};

}  // namespace ddprun::agent
