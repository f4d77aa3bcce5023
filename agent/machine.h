// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/outcome.h"
#include "rendezvous/layout.h"

// DECIDES what this node does: every event gives the actions to take, in order. Pure: no clock, no
// socket, no process. It has no counter and no retry policy: it always asks to join again, and the
// rendezvous answers with a round or with the end of the job.
//
//  event \ state | joining       | running                    | stopping             | draining
//  --------------+---------------+----------------------------+----------------------+--------------
//  RoundReady    | > running;    | -                          | -                    | -
//                |  StartWorkers |                            |                      |
//  StartFailed   | -             | > stopping; ending = it;   | -                    | -
//                |               |  Leave, StopWorkers(TERM)  |                      |
//  WorkerFailed  | -             | > stopping; ReportFailure, | - (a sibling that we | -
//                |               |  StopWorkers(TERM)         |  stopped)            |
//  WorkersEnded  | -             | > draining; ReportSuccess  | ending known ?       | -
//                |               |                            |  > done; Finish :    |
//                |               |                            |  > joining; Join     |
//  RoundBroken   | - (late news) | > stopping;                | -                    | > joining;
//                |               |  StopWorkers(TERM)         |                      |  Join
//  JobClosed     | > done;       | > stopping; ending = it;   | ending = it, if none | > done;
//                |  Finish       |  StopWorkers(TERM)         |                      |  Finish
//  LeaseOver     | -             | > stopping;                | StopWorkers(KILL)    | - (nothing
//                |               |  StopWorkers(KILL)         |                      |  runs here)
//  StopRequested | > done;       | > stopping; ending =       | ending known ?       | > done;
//                |  Leave,       |  interrupted; Leave,       |  StopWorkers(KILL) : |  Leave,
//                |  Finish       |  StopWorkers(same signal)  |  ending = inter-     |  Finish
//                |               |                            |  rupted; Leave       |
//
// A job that ends by a failure has a known ending, too: the round is broken for good, and the
// answer to Join tells how. A StopRequested at once kills instead of sending its signal, and also
// in the last case of stopping. done ignores everything. A dash is a deliberate "nothing to do",
// not a hole.

namespace ddprun::agent {

namespace event {

struct RoundReady {
  rendezvous::Layout layout;
};
/// A worker could not even be started; others may run.
struct StartFailed {
  Error error;
};
struct WorkerFailed {
  rendezvous::Failure failure;
};
/// Nothing of the round's workers is left on this node.
struct WorkersEnded {};
struct RoundBroken {
  bool ends_job = false;  ///< by a failure: whoever joins again hears how
};
/// The master may be about to go on without us: nothing of our round may run any more.
struct LeaseOver {};
/// The rendezvous says how the job ends.
struct JobClosed {
  Outcome outcome;
};
/// Somebody wants us to stop, by this signal.
struct StopRequested {
  int signal;
  bool at_once = false;  ///< without any grace for the workers
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
struct ReportSuccess {};
/// Asked for a second time, it means at once.
struct StopWorkers {
  int signal;
};
/// Tell the others that this node takes no further part.
struct Leave {};
struct Finish {
  Outcome outcome;
};

}  // namespace action

using Action =
    std::variant<action::Join, action::StartWorkers, action::ReportFailure, action::ReportSuccess,
                 action::StopWorkers, action::Leave, action::Finish>;
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
  Actions leave_and_finish(Outcome outcome);
  Actions join();
  Actions stop_workers(int signal);

  State state_ = State::joining;
  std::optional<Outcome> ending_;  ///< how the job ends for us, once that is decided
  bool job_ends_ = false;          ///< we shall hear how
};

}  // namespace ddprun::agent
