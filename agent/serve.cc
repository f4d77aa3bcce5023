// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "agent/job/report.h"
#include "agent/master/master.h"
#include "agent/run.h"
#include "base/log.h"
#include "base/text.h"
#include "base/wait_reporter.h"
#include "launcher/guardian/guardian.h"
#include "launcher/output/output.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/signal_reader.h"
#include "launcher/process/signals.h"
#include "launcher/process/spawn.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/session/server.h"

namespace ddprun::agent {
namespace {

/// A process that only hosts the rendezvous.
class Serving {
 public:
  Serving(const JobSpec& job, Events& events)
      : job_(job),
        events_(events),
        output_(io_.get_executor()),
        signals_(io_.get_executor()),
        wait_reporter_(io_.get_executor()),
        resolver_(io_.get_executor()) {
    log::set_writer([this](std::string_view line) { output_.write_own_line(line); });
  }
  Serving(const Serving&) = delete;

  ~Serving() {
    output_.finish(kLastFlush);
    log::set_writer({});
  }

  Outcome run() {
    if (const Result<> reading = signals_.start([this](int signal) { on_signal(signal); });
        !reading) {
      return reading.error();
    }
    launcher::raise_open_files_limit();
    resolver_.resolve(master_endpoint(job_),
                      [this](auto addresses) { on_resolved(std::move(addresses)); });
    io_.run();
    return *outcome_;
  }

 private:
  void on_resolved(Result<rendezvous::Resolver::Addresses> addresses) {
    if (!addresses) return finish(addresses.error());
    auto server = rendezvous::Server::listen(io_.get_executor(), *addresses, master_options(job_));
    if (!server) return finish(server.error());
    server_ = std::move(*server);
    const auto address = server_->address();
    log::info("serving the rendezvous of job '" + job_.run_id + "' at " +
              rendezvous::Endpoint{address.address().to_string(), address.port()}.text());
    events_.serving(address.port());
    on_round_changed(false);
    server_->when_round_changes([this](bool runs) { on_round_changed(runs); });
    server_->when_settled([this] {
      const auto& ending = server_->ending();
      finish(ending ? outcome_of(*ending, job_.master_addr)
                    : Outcome(Interrupted{SIGTERM}));  // ddprun stop
    });
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD || signal == SIGWINCH) return;
    if (signal == SIGUSR1 || signal == SIGUSR2) return;
    if (signal == SIGCONT && !launcher::guardian_is_gone()) return;
    events_.signal_received(signal);
    finish(Interrupted{signal});
  }

  /// Restarts the timer for every wait.
  void on_round_changed(bool runs) {
    if (runs) return wait_reporter_.end();
    wait_reporter_.begin([this](std::chrono::seconds waited) { report_waiting(waited); });
  }

  void report_waiting(std::chrono::seconds waited) const {
    const std::string sentence = server_->waiting_for();
    if (!sentence.empty()) log::info("waiting " + duration_text(waited) + " for " + sentence);
  }

  void finish(Outcome outcome) {
    if (std::holds_alternative<JobFailed>(outcome)) {
      log::error(failure_report(std::get<rendezvous::Failed>(*server_->ending())));
    }
    outcome_ = std::move(outcome);
    io_.stop();
  }

  const JobSpec& job_;
  Events& events_;
  boost::asio::io_context io_{1};
  launcher::Output output_;
  launcher::SignalReader signals_;
  WaitReporter wait_reporter_;
  rendezvous::Resolver resolver_;
  std::unique_ptr<rendezvous::Server> server_;
  std::optional<Outcome> outcome_;
};

}  // namespace

Outcome serve(const JobSpec& job, Events& events) {
  return Serving(job, events).run();
}

}  // namespace ddprun::agent
