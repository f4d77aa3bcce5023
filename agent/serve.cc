// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "agent/master.h"
#include "agent/report.h"
#include "agent/run.h"
#include "agent/wait_reporter.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/exit_status.h"
#include "launcher/signal_reader.h"
#include "launcher/signals.h"
#include "launcher/spawn.h"
#include "rendezvous/server.h"

namespace ddprun::agent {
namespace {

/// A process that only hosts the rendezvous.
class Serving {
 public:
  Serving(const JobSpec& job, Events& events)
      : job_(job),
        events_(events),
        signals_(io_.get_executor()),
        wait_reporter_(io_.get_executor()) {}

  Outcome run() {
    if (const Result<> ready = open(); !ready) return ready.error();
    log::info(
        "serving the rendezvous of job '" + job_.run_id + "' at " +
        rendezvous::Endpoint{server_->address().address().to_string(), server_->address().port()}
            .text());
    events_.serving(server_->address().port());
    wait_reporter_.begin([this](std::chrono::seconds waited) { report_waiting(waited); });
    server_->when_settled([this] { finish(outcome_of(*server_->ending())); });
    io_.run();
    return *outcome_;
  }

 private:
  Result<> open() {
    if (const Result<> reading = signals_.start([this](int signal) { on_signal(signal); });
        !reading) {
      return reading;
    }
    launcher::raise_open_files_limit();
    auto server =
        rendezvous::Server::listen(io_.get_executor(), master_endpoint(job_), master_options(job_));
    if (!server) return server.error();
    server_ = std::move(*server);
    return {};
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD || signal == SIGUSR1 || signal == SIGUSR2) return;
    events_.signal_received(signal);
    finish(Interrupted{signal});
  }

  void report_waiting(std::chrono::seconds waited) const {
    if (server_->runs_round()) return;
    const std::string sentence = server_->waiting_for();
    if (!sentence.empty()) log::info("waiting " + duration_text(waited) + " for " + sentence);
  }

  void finish(Outcome outcome) {
    const auto& ending = server_->ending();
    if (ending && std::holds_alternative<JobFailed>(outcome)) {
      log::error(failure_report(std::get<rendezvous::Failed>(*ending)));
    }
    outcome_ = std::move(outcome);
    io_.stop();
  }

  const JobSpec& job_;
  Events& events_;
  boost::asio::io_context io_{1};
  launcher::SignalReader signals_;
  WaitReporter wait_reporter_;
  std::unique_ptr<rendezvous::Server> server_;
  std::optional<Outcome> outcome_;
};

}  // namespace

Outcome serve(const JobSpec& job, Events& events) {
  return Serving(job, events).run();
}

}  // namespace ddprun::agent
