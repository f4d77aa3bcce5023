// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "agent/error_file.h"
#include "agent/machine.h"
#include "agent/master.h"
#include "agent/node_workers.h"
#include "agent/report.h"
#include "agent/wait_reporter.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/guardian.h"
#include "launcher/output/output.h"
#include "launcher/signal_reader.h"
#include "launcher/signals.h"
#include "launcher/spawn.h"
#include "rendezvous/addresses.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"

namespace ddprun::agent {
namespace {

namespace asio = boost::asio;

/// How long the last output may take when its reader has stopped reading.
constexpr std::chrono::seconds kLastFlush{5};

constexpr int kListenAgain = 8;

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool contains(std::span<const int> signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

/// Performs what Machine decides and tells it what happened.
class Agent {
 public:
  Agent(const JobSpec& job, Events& events)
      : job_(job),
        events_(events),
        output_(io_.get_executor()),
        signals_(io_.get_executor()),
        search_(io_.get_executor(), job_),
        workers_(io_.get_executor(), job_, host_, output_, events,
                 [this](Event event) { happened(std::move(event)); }),
        patience_(io_.get_executor()) {
    log::set_writer([this](std::string_view line) { output_.write_own_line(line); });
  }

  ~Agent() {
    output_.finish(kLastFlush);
    log::set_writer({});
  }

  Outcome run() {
    if (const Result<> opened = workers_.open_logs(); !opened) return opened.error();
    const Result<> hearing = signals_.start([this](int signal) { on_signal(signal); });
    if (!hearing) return hearing.error();
    launcher::raise_open_files_limit();  // a connection for each rank of the whole job
    events_.job_started(job_);
    wait_aloud();
    search_.start([this](auto addresses) { on_master_found(std::move(addresses)); });
    io_.run();
    return *outcome_;
  }

 private:
  void on_signal(int signal);
  void tell_stop(int signal, bool handled) const;

  void on_master_found(Result<rendezvous::Resolver::Addresses> addresses);
  Result<> host(const rendezvous::Endpoint& where);
  void meet_master();

  void on_welcome(const rendezvous::reply::Welcome& welcome);
  void on_notification(rendezvous::Notification notification);
  void on_connection_changed(const std::string& sentence);
  void on_lease_renewed(std::chrono::steady_clock::time_point until) const;
  void on_lease_over();
  void on_round_lost(const std::string& reason);

  void wait_aloud();
  void tell_waiting(const std::string& sentence);
  void tell_broken(const rendezvous::Broken& broken);
  void tell_ready();
  void tell_end(const Outcome& outcome);
  void tell_caller() const;
  void finish(Outcome outcome);

  void happened(Event event);
  void perform(const Actions& actions);
  void perform(const action::Join&);
  void perform(const action::StartWorkers& start);
  void perform(const action::ReportFailure& report);
  void perform(const action::ReportSuccess&);
  void perform(const action::StopWorkers& stop);
  void perform(const action::Leave&);
  void perform(const action::Finish& end);

  bool runs_workers() const {
    const auto state = machine_.state();
    return state == Machine::State::running || state == Machine::State::stopping;
  }
  rendezvous::Endpoint workers_store() const;

  JobSpec job_;  // with what the master decided for every node
  Events& events_;
  const std::string host_ = host_name();
  asio::io_context io_{1};
  launcher::Output output_;
  launcher::SignalReader signals_;
  MasterSearch search_;
  std::unique_ptr<rendezvous::Server> server_;  // of a node that hosts the rendezvous
  std::unique_ptr<rendezvous::Client> client_;
  bool is_host_ = false;  // the endpoint is an address of this host
  Machine machine_;
  NodeWorkers workers_;
  WaitReporter patience_;
  rendezvous::Layout layout_;  // of the last round we were in
  int restarts_ = 0;           // the highest count we were told
  bool was_member_ = false;
  std::optional<rendezvous::Failed> failed_;                        // how the job ended
  std::optional<std::chrono::steady_clock::time_point> broken_at_;  // by a failure
  std::deque<Event> waiting_;  // events that came while another one was dealt with
  bool deciding_ = false;
  std::optional<Outcome> outcome_;
};

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return workers_.child_changed();
  events_.signal_received(signal);
  const bool handled = contains(job_.signals_to_handle, signal);
  if (!handled && contains(launcher::kForwardedSignals, signal)) return workers_.forward(signal);
  if (outcome_) return io_.stop();  // the others hear of the end by our silence
  if (launcher::guardian_is_gone()) {
    // Whoever killed the guardian with SIGKILL wants no grace.
    return happened(event::StopRequested{SIGKILL, true});
  }
  if (machine_.state() == Machine::State::running) tell_stop(signal, handled);
  happened(event::StopRequested{signal, !handled});
}

void Agent::tell_stop(int signal, bool handled) const {
  const size_t count = workers_.running().size();
  const std::string workers = std::to_string(count) + (count == 1 ? " worker" : " workers");
  const std::string name = launcher::signal_name(signal);
  log::info(handled
                ? "stopping " + workers + " (" + name + "); again to end at once"
                : "killing " + workers + ": " + name + " is not one of the --signals_to_handle");
}

void Agent::on_master_found(Result<rendezvous::Resolver::Addresses> addresses) {
  if (outcome_) return;
  if (!addresses) return finish(addresses.error());
  const auto where = rendezvous::where_to_host(master_endpoint(job_), *addresses, job_.is_host);
  is_host_ = where.has_value();
  if (where) {
    if (const Result<> hosted = host(*where); !hosted) return finish(hosted.error());
  }
  meet_master();
  perform(machine_.start());
}

/// On a host with several agents, or with a rendezvous that runs alone, the first one has the port;
/// the others are its clients.
Result<> Agent::host(const rendezvous::Endpoint& where) {
  Result<std::unique_ptr<rendezvous::Server>> server =
      rendezvous::Server::listen(io_.get_executor(), where, master_options(job_));
  const auto taken = [&server] { return !server && server.error().code == Errc::usage; };
  // Of two that begin to listen in the same instant Linux may refuse both.
  for (int again = 0; taken() && again < kListenAgain; ++again) {
    server = rendezvous::Server::listen(io_.get_executor(), where, master_options(job_));
  }
  const bool may_be_client = job_.max_nodes > 1 && !job_.is_host;
  if (taken() && may_be_client) return {};
  if (!server) return server.error();
  server_ = std::move(*server);
  return {};
}

void Agent::meet_master() {
  rendezvous::Client::Options options;
  options.server = master_endpoint(job_);
  if (!job_.local_addr.empty()) options.local = asio::ip::make_address(job_.local_addr);
  options.run_id = job_.run_id;
  options.min_nodes = job_.min_nodes;
  options.max_nodes = job_.max_nodes;
  options.host = host_;
  options.hosted = server_.get();
  options.join_timeout = job_.join_timeout;
  client_ = std::make_unique<rendezvous::Client>(
      io_.get_executor(), std::move(options),
      rendezvous::Client::Hooks{
          [this](const rendezvous::reply::Welcome& welcome) { on_welcome(welcome); },
          [this](rendezvous::Notification notification) {
            on_notification(std::move(notification));
          },
          [this](const std::string& sentence) { tell_waiting(sentence); },
          [this](const std::string& sentence) { on_connection_changed(sentence); },
          [this](std::chrono::steady_clock::time_point until) { on_lease_renewed(until); },
          [this] { on_lease_over(); }, [this](const std::string& reason) { on_round_lost(reason); },
          [this](Error error) { happened(event::JobClosed{std::move(error)}); }});
}

/// One job has one answer to each of these, whatever the flags of its nodes say.
void Agent::on_welcome(const rendezvous::reply::Welcome& welcome) {
  job_.max_restarts = welcome.max_restarts;
  job_.lease = welcome.lease;
}

void Agent::on_notification(rendezvous::Notification notification) {
  using namespace rendezvous;
  if (const auto* ready = std::get_if<Ready>(&notification)) {
    happened(event::RoundReady{ready->layout});
  } else if (const auto* broken = std::get_if<Broken>(&notification)) {
    tell_broken(*broken);
    happened(event::RoundBroken{broken->ends_job});
  } else if (const auto* closed = std::get_if<Closed>(&notification)) {
    if (const auto* failed = std::get_if<Failed>(&closed->ending)) failed_ = *failed;
    happened(event::JobClosed{outcome_of(closed->ending)});
  } else if (const auto* refused = std::get_if<Refused>(&notification)) {
    happened(event::JobClosed{Error{
        Errc::usage, master_endpoint(job_).text() + " refused this node: " + refused->sentence}});
  }
}

void Agent::on_connection_changed(const std::string& sentence) {
  const bool lost = client_->is_unreachable();
  log::warning(sentence + (lost && runs_workers() ? "; the workers run on for up to " +
                                                        duration_text(job_.lease) + " (--lease)"
                                                  : ""));
}

/// The guardian kills the workers where we cannot, before the master goes on without us.
void Agent::on_lease_renewed(std::chrono::steady_clock::time_point until) const {
  const auto grace = job_.lease / 20;
  launcher::arm_liveness_timer(until + grace, grace);
}

void Agent::on_lease_over() {
  if (runs_workers()) {
    log::warning("no word from the master at " + master_endpoint(job_).text() + " for " +
                 duration_text(job_.lease) +
                 " (--lease): killing this node's workers, the others may go on without it");
  }
  happened(event::LeaseOver{});
  launcher::disarm_liveness_timer();
}

void Agent::on_round_lost(const std::string& reason) {
  log::warning(reason + ": this node joins again");
  happened(event::RoundBroken{});
}

void Agent::wait_aloud() {
  patience_.begin([this](std::chrono::seconds) {
    if (outcome_) return tell_waiting(server_->waiting_for());
    if (!client_) {
      return tell_waiting(search_.waiting_for() + "; giving up after " +
                          duration_text(job_.join_timeout) + " (--join_timeout)");
    }
    client_->request_waiting_for();
  });
}

void Agent::tell_waiting(const std::string& sentence) {
  if (sentence.empty()) return;
  log::info("waiting " + duration_text(patience_.waited()) + " for " + printable(sentence));
}

void Agent::tell_broken(const rendezvous::Broken& broken) {
  restarts_ = broken.restarts;
  if (!broken.root_cause) {
    broken_at_.reset();  // what failed here was a victim, and costs no restart
    return log::info(printable(broken.reason));
  }
  if (!broken_at_) broken_at_ = std::chrono::steady_clock::now();
  if (broken.ends_job) return;  // the report follows
  log::error(failure_line(*broken.root_cause, layout_.round));
  events_.restart(layout_.round, broken.restarts, job_.max_restarts);
}

void Agent::tell_ready() {
  if (broken_at_) {
    log::info(
        restart_line(layout_, job_.max_restarts, std::chrono::steady_clock::now() - *broken_at_));
  } else if (layout_.round > 0) {
    log::info(regroup_line(layout_, job_.min_nodes, job_.max_nodes));
  } else if (patience_.has_spoken()) {
    log::info("all " + std::to_string(layout_.node_count) + " nodes are here after " +
              duration_text(patience_.waited()));
  }
  broken_at_.reset();
}

void Agent::tell_end(const Outcome& outcome) {
  if (failed_ && std::holds_alternative<WorkerFailed>(outcome)) {
    log::error(failure_report(*failed_));
    tell_caller();
  }
}

/// Who runs ddprun as a worker of its own learns the cause as from torchrun.
void Agent::tell_caller() const {
  if (job_.error_file.empty()) return;
  const bool is_ours = failed_->round == layout_.round;
  const std::string told = is_ours ? workers_.error_file_of(failed_->root_cause.rank) : "";
  const std::string file = error_file_for_caller(failed_->root_cause, told, std::time(nullptr));
  if (file.empty()) return;
  if (const Result<> written = write_error_file(job_.error_file, file); !written) {
    log::warning("TORCHELASTIC_ERROR_FILE: " + written.error().message);
  }
}

/// Ends this node's part. The master stays until every node knows that the job is over.
void Agent::finish(Outcome outcome) {
  tell_end(outcome);
  launcher::disarm_liveness_timer();
  outcome_ = std::move(outcome);
  if (!server_ || !server_->ending()) return io_.stop();
  wait_aloud();
  server_->when_settled([this] { io_.stop(); });
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
  request.is_host = is_host_;
  request.hosting = server_ != nullptr;
  if (job_.store == StoreHost::worker) {
    const auto port = rendezvous::free_port(asio::ip::address_v4::any());
    if (!port) return happened(event::JobClosed{port.error()});
    request.store_port = *port;
  }
  if (was_member_) {
    request.last_round = layout_.round;
    request.last_node_rank = layout_.node_rank;
    request.last_guests = layout_.guests;
    request.restarts = restarts_;
    request.aftermath = workers_.aftermath();
    wait_aloud();
  }
  client_->join(std::move(request));
}

/// Where the workers find it, which the user named for all of them.
rendezvous::Endpoint Agent::workers_store() const {
  rendezvous::Endpoint store = master_endpoint(job_);
  if (server_ && store.port == 0) store.port = server_->address().port();
  if (layout_.store_port != 0) store.port = static_cast<std::uint16_t>(layout_.store_port);
  if (!layout_.store_host.empty()) store.host = layout_.store_host;
  return store;
}

void Agent::perform(const action::StartWorkers& start) {
  layout_ = start.layout;
  restarts_ = layout_.restarts;
  was_member_ = true;
  const Result<> started = workers_.start(layout_, workers_store());
  if (!started) return happened(event::StartFailed{started.error()});
  tell_ready();
  patience_.end();
}

void Agent::perform(const action::ReportFailure& report) {
  broken_at_ = std::chrono::steady_clock::now();
  client_->fail(layout_.round, report.failure);
}

void Agent::perform(const action::ReportSuccess&) {
  wait_aloud();
  client_->succeed(layout_.round);
}

void Agent::perform(const action::StopWorkers& stop) {
  if (stop.signal == SIGKILL) output_.give_up_stopped_readers();
  workers_.stop(stop.signal);
}

void Agent::perform(const action::Leave&) {
  if (client_) client_->leave();
}

void Agent::perform(const action::Finish& end) {
  finish(end.outcome);
}

}  // namespace

Outcome run(const JobSpec& job, Events& events) {
  return Agent(job, events).run();
}

}  // namespace ddprun::agent
