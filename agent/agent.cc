// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "agent/machine.h"
#include "agent/node_workers.h"
#include "agent/report.h"
#include "base/log.h"
#include "launcher/guardian.h"
#include "launcher/output.h"
#include "launcher/signals.h"
#include "launcher/spawn.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"

namespace ddprun::agent {
namespace {

namespace asio = boost::asio;

/// How long the last output may take when its reader has stopped reading.
constexpr std::chrono::seconds kLastFlush{5};

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Outcome outcome_of(const rendezvous::Ending& ending) {
  if (const auto* failed = std::get_if<rendezvous::Failed>(&ending)) {
    return WorkerFailed{launcher::ExitStatus(failed->root_cause.wait_status).code()};
  }
  if (const auto* timed_out = std::get_if<rendezvous::TimedOut>(&ending)) {
    return Error{Errc::timed_out, timed_out->sentence};
  }
  return Succeeded{};
}

/// Performs what Machine decides and tells it what happened.
class Agent {
 public:
  Agent(const JobSpec& job, Events& events)
      : job_(job),
        events_(events),
        output_(io_.get_executor()),
        signals_(io_),
        workers_(io_.get_executor(), job, host_, output_, events,
                 [this](Event event) { happened(std::move(event)); }) {
    log::set_writer([this](std::string_view line) { output_.write_own_line(line); });
  }

  ~Agent() {
    output_.finish(kLastFlush);
    log::set_writer({});
  }

  Outcome run() {
    if (const Result<> ready = open(); !ready) return ready.error();
    events_.job_started(job_);
    perform(machine_.start());
    io_.run();
    return *outcome_;
  }

 private:
  Result<> open();
  void read_signals();
  void on_signal(int signal);
  void on_letter(rendezvous::Letter letter);

  void tell_broken(const rendezvous::Broken& broken);
  void tell_restart();
  void tell_end(const Outcome& outcome);

  void happened(Event event);
  void perform(const Actions& actions);
  void perform(const action::Join&);
  void perform(const action::StartWorkers& start);
  void perform(const action::ReportFailure& report);
  void perform(const action::ReportSuccess&);
  void perform(const action::StopWorkers& stop);
  void perform(const action::Leave&);
  void perform(const action::Finish& finish);

  const JobSpec& job_;
  Events& events_;
  const std::string host_ = host_name();
  asio::io_context io_{1};
  launcher::Output output_;
  asio::posix::stream_descriptor signals_;
  std::unique_ptr<rendezvous::Server> server_;
  std::unique_ptr<rendezvous::Client> client_;
  Machine machine_;
  NodeWorkers workers_;
  rendezvous::Layout layout_;  // of the last round we were in
  int restarts_ = 0;           // the highest count we were told
  bool was_member_ = false;
  std::optional<rendezvous::Failure> root_cause_;                   // of the job's end
  std::optional<std::chrono::steady_clock::time_point> broken_at_;  // by a failure
  std::deque<Event> waiting_;  // events that came while another one was dealt with
  bool deciding_ = false;
  std::optional<Outcome> outcome_;
};

/// One node: the rendezvous is here, and we meet it over loopback like any other agent would.
Result<> Agent::open() {
  Result<Fd> signal_fd = launcher::open_signal_fd();
  if (!signal_fd) return signal_fd.error();
  signals_.assign(signal_fd->release());
  read_signals();
  launcher::raise_open_files_limit();  // a connection for each rank of the whole job

  rendezvous::RoundSpec round;
  round.min_nodes = job_.min_nodes;
  round.max_nodes = job_.max_nodes;
  round.max_restarts = job_.max_restarts;
  round.join_timeout = job_.join_timeout;
  Result<std::unique_ptr<rendezvous::Server>> server = rendezvous::Server::listen(
      io_.get_executor(), {job_.master_addr, job_.master_port}, {job_.run_id, round});
  if (!server) return server.error();
  server_ = std::move(*server);
  client_ = std::make_unique<rendezvous::Client>(
      io_.get_executor(), server_->address(), job_.run_id,
      rendezvous::Client::Hooks{
          [this](rendezvous::Letter letter) { on_letter(std::move(letter)); },
          [this](Error error) { happened(event::JobClosed{std::move(error)}); }});
  return {};
}

void Agent::read_signals() {
  signals_.async_wait(asio::posix::descriptor_base::wait_read,
                      [this](boost::system::error_code failure) {
                        if (failure) return;
                        signalfd_siginfo info = {};
                        while (read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
                          on_signal(static_cast<int>(info.ssi_signo));
                        }
                        read_signals();
                      });
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return workers_.child_changed();
  events_.signal_received(signal);
  if (signal == SIGUSR1 || signal == SIGUSR2) return workers_.forward(signal);
  if (launcher::guardian_is_gone()) {
    // Whoever killed the guardian with SIGKILL wants no grace.
    return happened(event::StopRequested{SIGKILL});
  }
  if (machine_.state() == Machine::State::running) {
    const size_t count = workers_.running().size();
    log::info("stopping " + std::to_string(count) + (count == 1 ? " worker (" : " workers (") +
              launcher::signal_name(signal) + "); again to end at once");
  }
  happened(event::StopRequested{signal});
}

void Agent::on_letter(rendezvous::Letter letter) {
  using namespace rendezvous;
  if (const auto* ready = std::get_if<Ready>(&letter)) {
    happened(event::RoundReady{ready->layout});
  } else if (const auto* broken = std::get_if<Broken>(&letter)) {
    tell_broken(*broken);
    happened(event::RoundBroken{});
  } else if (const auto* closed = std::get_if<Closed>(&letter)) {
    if (const auto* failed = std::get_if<Failed>(&closed->ending)) root_cause_ = failed->root_cause;
    happened(event::JobClosed{outcome_of(closed->ending)});
  } else if (const auto* refused = std::get_if<Refused>(&letter)) {
    happened(event::JobClosed{
        Error{Errc::usage, "the rendezvous refused this node: " + refused->sentence}});
  }
}

void Agent::tell_broken(const rendezvous::Broken& broken) {
  restarts_ = broken.restarts;
  if (!broken.root_cause) return log::info(broken.reason);
  if (!broken_at_) broken_at_ = std::chrono::steady_clock::now();
  log::error(failure_line(*broken.root_cause, layout_.round));
  events_.restart(layout_.round, broken.restarts, job_.max_restarts);
}

void Agent::tell_restart() {
  log::info(
      restart_line(layout_, job_.max_restarts, std::chrono::steady_clock::now() - *broken_at_));
  broken_at_.reset();
}

void Agent::tell_end(const Outcome& outcome) {
  if (root_cause_ && std::holds_alternative<WorkerFailed>(outcome)) {
    log::error(failure_report(*root_cause_, layout_.round, workers_.stop_summary(),
                              layout_.restarts, job_.max_restarts));
  }
}

void Agent::happened(Event event) {
  waiting_.push_back(std::move(event));
  if (deciding_) return;
  deciding_ = true;
  while (!waiting_.empty()) {
    const Event next = std::move(waiting_.front());
    waiting_.pop_front();
    perform(machine_.on(next));
  }
  deciding_ = false;
}

void Agent::perform(const Actions& actions) {
  for (const Action& action : actions) {
    std::visit([this](const auto& a) { perform(a); }, action);
  }
}

void Agent::perform(const action::Join&) {
  rendezvous::JoinRequest request;
  request.local_size = job_.local_size;
  request.node_rank = job_.node_rank;
  request.host = host_;
  request.is_host = server_ != nullptr;
  if (was_member_) {
    request.last_round = layout_.round;
    request.last_node_rank = layout_.node_rank;
    request.restarts = restarts_;
  }
  client_->join(std::move(request));
}

void Agent::perform(const action::StartWorkers& start) {
  layout_ = start.layout;
  restarts_ = layout_.restarts;
  was_member_ = true;
  const Result<> started = workers_.start(layout_, server_->address().port());
  if (!started) return happened(event::StartFailed{started.error()});
  if (broken_at_) tell_restart();
}

void Agent::perform(const action::ReportFailure& report) {
  broken_at_ = std::chrono::steady_clock::now();
  client_->fail(layout_.round, report.failure);
}

void Agent::perform(const action::ReportSuccess&) {
  client_->succeed(layout_.round);
}

void Agent::perform(const action::StopWorkers& stop) {
  if (stop.signal == SIGKILL) output_.give_up_stopped_readers();
  workers_.stop(stop.signal);
}

void Agent::perform(const action::Leave&) {
  client_->leave();
}

void Agent::perform(const action::Finish& finish) {
  tell_end(finish.outcome);
  outcome_ = finish.outcome;
  io_.stop();
}

}  // namespace

Outcome run(const JobSpec& job, Events& events) {
  return Agent(job, events).run();
}

}  // namespace ddprun::agent
