// SPDX-License-Identifier: Apache-2.0
#include "agent/job/machine.h"

#include <csignal>
#include <utility>

namespace ddprun::agent {

Actions Machine::start() {
  return {action::Join{}};
}

Actions Machine::on(const Event& event) {
  switch (state_) {
    case State::joining:
      return while_joining(event);
    case State::running:
      return while_running(event);
    case State::stopping:
      return while_stopping(event);
    case State::draining:
      return while_draining(event);
    case State::done:
      return {};
  }
  return {};
}

Actions Machine::while_joining(const Event& event) {
  if (const auto* e = std::get_if<event::RoundReady>(&event)) {
    state_ = State::running;
    ends_job_ = false;
    return {action::StartWorkers{e->layout}};
  }
  if (const auto* e = std::get_if<event::JobClosed>(&event)) return finish(e->outcome);
  if (const auto* e = std::get_if<event::StopRequested>(&event)) {
    return leave_and_finish(e->signal);
  }
  return {};
}

Actions Machine::while_running(const Event& event) {
  if (const auto* e = std::get_if<event::WorkerFailed>(&event)) {
    state_ = State::stopping;
    return {action::ReportFailure{e->failure}, action::StopWorkers{SIGTERM}};
  }
  if (const auto* e = std::get_if<event::StartFailed>(&event)) {
    state_ = State::stopping;
    return {action::ReportStartFailure{e->error, e->local_rank}, action::StopWorkers{SIGTERM}};
  }
  if (std::holds_alternative<event::WorkersEnded>(event)) {
    state_ = State::draining;
    return {action::ReportSuccess{}};
  }
  if (const auto* e = std::get_if<event::RoundBroken>(&event)) {
    ends_job_ = e->ends_job;
    return stop_workers(SIGTERM);
  }
  if (std::holds_alternative<event::LeaseOver>(event)) return stop_workers(SIGKILL);
  if (const auto* e = std::get_if<event::JobClosed>(&event)) {
    ending_ = e->outcome;
    return stop_workers(SIGTERM);
  }
  if (const auto* e = std::get_if<event::StopRequested>(&event)) {
    ending_ = Interrupted{e->signal};
    state_ = State::stopping;
    return {action::Leave{e->signal}, action::StopWorkers{e->at_once ? SIGKILL : e->signal}};
  }
  return {};
}

Actions Machine::while_stopping(const Event& event) {
  if (std::holds_alternative<event::WorkersEnded>(event)) {
    if (ending_) return finish(*ending_);
    return join();
  }
  if (const auto* e = std::get_if<event::RoundBroken>(&event)) {
    ends_job_ = e->ends_job;
    return {};
  }
  if (std::holds_alternative<event::LeaseOver>(event)) return {action::StopWorkers{SIGKILL}};
  if (const auto* e = std::get_if<event::JobClosed>(&event)) {
    if (!ending_) ending_ = e->outcome;
    return {};
  }
  if (const auto* e = std::get_if<event::StopRequested>(&event)) {
    // The workers are stopping for good already: kill them now.
    if (ending_ || ends_job_) return {action::StopWorkers{SIGKILL}};
    ending_ = Interrupted{e->signal};
    if (e->at_once) return {action::Leave{e->signal}, action::StopWorkers{SIGKILL}};
    return {action::Leave{e->signal}};
  }
  return {};
}

Actions Machine::while_draining(const Event& event) {
  if (std::holds_alternative<event::RoundBroken>(event)) return join();
  if (const auto* e = std::get_if<event::JobClosed>(&event)) return finish(e->outcome);
  if (const auto* e = std::get_if<event::StopRequested>(&event)) {
    return leave_and_finish(e->signal);
  }
  return {};
}

Actions Machine::finish(Outcome outcome) {
  state_ = State::done;
  return {action::Finish{std::move(outcome)}};
}

Actions Machine::leave_and_finish(int signal) {
  state_ = State::done;
  return {action::Leave{signal}, action::Finish{Interrupted{signal}}};
}

Actions Machine::join() {
  state_ = State::joining;
  return {action::Join{}};
}

Actions Machine::stop_workers(int signal) {
  state_ = State::stopping;
  return {action::StopWorkers{signal}};
}

}  // namespace ddprun::agent
