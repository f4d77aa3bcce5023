// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <span>
#include <unistd.h>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "agent/ask/socket_folder.h"
#include "agent/diagnosis/gone_message.h"
#include "agent/job/error_file.h"
#include "agent/job/first_failure.h"
#include "agent/job/job_spec.h"
#include "agent/job/report.h"
#include "agent/master/master.h"
#include "agent/run.h"
#include "agent/worker/worker_interface.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/guardian/guardian.h"
#include "launcher/kernel/descendants.h"
#include "launcher/output/log_dir.h"
#include "launcher/process/signal_catchers.h"
#include "launcher/process/signals.h"
#include "launcher/process/spawn.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::agent {
namespace {

std::string state_name(Machine::State state) {
  switch (state) {
    case Machine::State::joining:
      return "joining";
    case Machine::State::running:
      return "running";
    case Machine::State::stopping:
      return "stopping";
    case Machine::State::draining:
      return "draining";
    case Machine::State::done:
      return "done";
  }
  return "";
}

/// Delays the removal of old log folders, which would compete with starting workers for the CPU.
constexpr std::chrono::milliseconds kTidyingDelay{20};

bool contains(std::span<const int> signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

}  // namespace

Agent::Agent(const JobSpec& job, Events& events)
    : job_(job),
      host_name_(rendezvous::host_name()),
      output_(io_.get_executor()),
      signals_(io_.get_executor()),
      master_(io_.get_executor(), job_, host_name_,
              [this](const rendezvous::NodeEvent& event) { on(event); }),
      workers_(io_.get_executor(), job_, host_name_, output_, events,
               [this](Event event) { handle_event(std::move(event)); }),
      reporter_(job_, events),
      wait_reporter_(io_.get_executor()),
      disk_(io_.get_executor()),
      answers_(io_.get_executor(), job_.devices, answers_hooks()),
      stacks_(workers_, answers_, disk_),
      deadline_(io_.get_executor(), job_, [this] {
        return DeadlineWatch::NodeProcesses{layout_.node_rank, workers_.processes()};
      }) {
  log::set_writer([this](std::string_view line) { output_.write_own_line(line); });
  workers_.when_progress_changes([this](rendezvous::NodeProgress progress) {
    master_.client().progress(std::move(progress));
  });
}

Agent::~Agent() {
  disk_.wait_until_idle(std::chrono::steady_clock::now() + kLastFlush);
  output_.finish(kLastFlush);
  log::set_writer({});
}

Outcome Agent::run() {
  if (const Result<> opened = workers_.open_files(); !opened) return opened.error();
  const Result<> reading = signals_.start([this](int signal) { on_signal(signal); });
  if (!reading) return reading.error();
  stacks_.add_route();
  answers_.open(job_name(job_));  // before the workers: one may ask about its job at once
  if (const Result<> opened = open_page(); !opened) return opened.error();
  launcher::raise_open_files_limit();  // a connection for each rank of the whole job
  reporter_.job_started();
  if (!contains(job_.signals_to_handle, SIGQUIT)) launcher::keep_quit_from_stopping();
  deadline_.begin();
  report_waiting();
  master_.search([this](auto addresses) { on_master_found(std::move(addresses)); });
  boost::asio::steady_timer tidying(io_, kTidyingDelay);
  tidying.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    disk_.run(launcher::LogDir::remove_abandoned);
    disk_.run([] {
      for (const std::string& folder : ask::safe_folders(ask::lasting_folders())) {
        launcher::remove_abandoned_dirs(folder, ask::kRecorderFolder);
      }
    });
  });
  io_.run();
  // As for every program, success counts only if the output could be written.
  const bool lost = !output_.write_error().empty();
  if (lost && std::holds_alternative<JobSucceeded>(*outcome_)) {
    return Error{Errc::system, "the workers succeeded, but " + output_.write_error()};
  }
  return *outcome_;
}

Result<> Agent::open_page() {
  const ask::Handler ask = [this](const ask::Question& question, const ask::Respond& respond) {
    answers_.routes().ask(question, respond);
  };
  return reporter_.open_page(io_.get_executor(), ask, host_name_);
}

Answers::Hooks Agent::answers_hooks() {
  return {.status = [this] { return status(); },
          .log = [this](int rank, std::uint64_t from) { return workers_.log(rank, from); },
          .has_master = [this] { return master_.is_open() && !master_.client().is_unreachable(); },
          .send =
              [this](rendezvous::Inquiry inquiry) {
                if (master_.is_open()) master_.client().inquire(std::move(inquiry));
              },
          .stop = [this] { on_stop_asked(); }};
}

ask::JobStatus Agent::status() const {
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - began_;
  const std::string importing = workers_.importing();
  ask::JobStatus status;
  status.job = job_name(job_);
  status.master = master_endpoint(job_).text();
  status.session = master_name_;
  status.program = command_text(job_);
  status.state = state_name(machine_.state());
  status.restarts = restarts_;
  status.max_restarts = job_.max_restarts;
  status.seconds = age.count();
  ask::NodeStatus node;
  node.host = host_name_;
  node.pid = getppid();  // the ddprun that the user sees
  node.state = importing.empty() ? status.state : importing;
  node.local_size = job_.local_size;
  node.ranks = workers_.ranks();
  if (was_member_) {
    status.round = layout_.round;
    status.world_size = layout_.world_size;
    status.node_count = layout_.node_count;
    node.node_rank = layout_.node_rank;
    node.first_rank = layout_.first_rank;
    node.local_size = layout_.local_size;
  }
  status.nodes.push_back(std::move(node));
  return status;
}

/// Acts as on SIGTERM. The master stays until the other nodes have ended, too.
void Agent::on_stop_asked() {
  if (outcome_) return;
  log::info("stopping the whole job, as ddprun stop asks");
  on_signal(SIGTERM);
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return workers_.child_changed();
  if (signal == SIGCONT) return on_continued();
  if (signal == SIGWINCH) return workers_.window_changed();
  reporter_.signal_received(signal);
  if (signal == SIGINT && job_.debugged_rank && workers_.interrupt(*job_.debugged_rank)) return;
  const bool handled = contains(job_.signals_to_handle, signal);
  if (!handled && contains(launcher::kForwardedSignals, signal)) return notify_workers(signal);
  if (!handled && signal == SIGQUIT) return stacks_.show();
  if (outcome_) return io_.stop();
  interrupted_by_key_ = signal == SIGINT && signals_.is_from_terminal();
  if (machine_.state() == Machine::State::running) {
    reporter_.stopping(workers_.running().size(), signal, handled);
  }
  handle_event(event::StopRequested{signal, !handled});
}

void Agent::notify_workers(int signal) {
  std::vector<pid_t> workers;
  for (const WorkerWatch::Process& worker : workers_.processes()) workers.push_back(worker.pid);
  disk_.run([workers, signal] { return launcher::forward_signal(workers, signal); },
            [signal, count = workers.size()](const std::vector<pid_t>& signalled) {
              if (signalled.size() < count)
                log::warning(notice_text(signal, signalled.size(), count));
            });
}

/// SIGCONT: the guardian has ended, or continues after Ctrl-Z.
void Agent::on_continued() {
  if (!launcher::guardian_is_gone()) {
    // If the lease has ended since, its workers must not run again: on_lease_over follows.
    if (BootClock::now() < lease_end_) launcher::signal_all_descendants(SIGCONT);
  } else if (outcome_) {
    io_.stop();
  } else {
    // A user who kills the guardian with SIGKILL wants no grace.
    handle_event(event::StopRequested{SIGKILL, true});
  }
}

void Agent::on_master_found(Result<rendezvous::Resolver::Addresses> addresses) {
  if (outcome_) return;
  if (!addresses) return finish(addresses.error());
  const Result<> opened =
      master_.open(*addresses, [this] { on_became_master(); }, [this] { on_stepped_down(); });
  if (!opened) return finish(opened.error());
  perform(machine_.start());
}

/// This node's master never answered, or was lost before this node had a round.
void Agent::on_became_master() {
  if (outcome_) return;
  launcher::clear_final_message();
  launcher::disarm_liveness_timer();  // no worker runs, so the old master's lease ends nothing
  lease_end_ = BootClock::time_point::max();
  log::info("the port of " + master_endpoint(job_).text() + " is free: this node is the master");
  perform(action::Join{});
}

/// If this node's part is over, stops waiting: the next master sends the others the end.
void Agent::on_stepped_down() {
  if (outcome_) io_.stop();
}

void Agent::on(const rendezvous::NodeEvent& event) {
  std::visit([this](const auto& alternative) { on(alternative); }, event);
}

/// Takes over the master's settings: a job has one value of each, whatever the nodes' flags say.
void Agent::on(const rendezvous::node_event::Welcomed& event) {
  master_name_ = event.welcome.master;
  job_.max_restarts = event.welcome.max_restarts;
  job_.lease = event.welcome.lease;
  job_.hang_timeout = event.welcome.hang_timeout;
}

void Agent::on(const rendezvous::node_event::Notified& event) {
  std::visit([this](const auto& notification) { on(notification); }, event.notification);
}

/// Drops a late answer: the round for which this node waited may have begun.
void Agent::on(const rendezvous::node_event::WaitingFor& event) {
  if (wait_reporter_.is_under_way()) reporter_.waiting(wait_reporter_.waited(), event.sentence);
}

void Agent::on(const rendezvous::node_event::ConnectionChanged& event) {
  reporter_.connection_changed(event.sentence, !master_.client().is_unreachable(),
                               workers_run_for());
}

void Agent::on(const rendezvous::node_event::Inquiring& event) {
  answers_.received(event.inquiry);
}

/// If this process cannot kill the workers in time, the guardian does, before the master continues
/// without this node.
void Agent::on(const rendezvous::node_event::LeaseRenewed& event) {
  lease_end_ = event.until;
  const auto grace = job_.lease / 20;
  launcher::arm_liveness_timer(event.until + grace, grace);
}

void Agent::on(const rendezvous::node_event::LeaseOver&) {
  if (runs_workers()) reporter_.lease_over();
  lease_end_ = BootClock::time_point::max();
  handle_event(event::LeaseOver{});
  launcher::disarm_liveness_timer();
}

void Agent::on(const rendezvous::node_event::RoundLost& event) {
  reporter_.round_lost(event.reason);
  handle_event(event::RoundBroken{});
}

void Agent::on(const rendezvous::node_event::FailureCounted& event) {
  reporter_.failure_counted(event.failure, layout_.round, event.restarts);
}

void Agent::on(const rendezvous::node_event::FailureDropped& event) {
  reporter_.failure_dropped(event.failure, layout_.round);
}

void Agent::on(const rendezvous::node_event::GaveUp& event) {
  launcher::clear_final_message();
  handle_event(event::JobClosed{event.error});
}

/// Prepares the guardian: if this process is killed, the guardian tells the master that no worker
/// runs.
void Agent::on(const rendezvous::node_event::Connected&) {
  using boost::asio::ip::tcp;
  const auto bytes = [](const tcp::endpoint& address) {
    return std::string_view(reinterpret_cast<const char*>(address.data()), address.size());
  };
  const tcp::endpoint& server = master_.client().connected_to();
  tcp::endpoint from;
  if (!job_.local_addr.empty()) from.address(boost::asio::ip::make_address(job_.local_addr));
  std::string subject = gone_subject(master_.client().session(), master_.client().security().get());
  note_interface(job_, server.address());
  launcher::set_final_message({bytes(server), job_.local_addr.empty() ? "" : bytes(from)}, subject);
  explicit_bzero(subject.data(), subject.size());  // it may have the key
}

/// Takes over the endpoint, like the master's settings.
void Agent::on(const rendezvous::node_event::Located& event) {
  job_.master_addr = event.master.host;
  job_.master_port = event.master.port;
}

void Agent::on(const rendezvous::Ready& ready) {
  if (!ready.suspect.empty()) reporter_.suspected(ready.suspect);
  handle_event(event::RoundReady{ready.layout});
}

void Agent::on(const rendezvous::Broken& broken) {
  restarts_ = broken.restarts;
  sample_first_ = broken.root_cause && is_consequence(*broken.root_cause);
  hung_ = broken.root_cause && broken.root_cause->hung;
  round_failed_ = round_failed_ || broken.root_cause;
  reporter_.round_broken(broken, layout_.round);
  handle_event(event::RoundBroken{broken.ends_job});
}

void Agent::on(const rendezvous::Closed& closed) {
  launcher::clear_final_message();  // no other node waits for this one
  if (const auto* failed = std::get_if<rendezvous::Failed>(&closed.ending)) failed_ = *failed;
  handle_event(event::JobClosed{outcome_of(closed.ending, job_.master_addr)});
}

void Agent::on(const rendezvous::Refused& refused) {
  if (refused.left_out) {
    return handle_event(event::JobClosed{Error{
        Errc::left_out, "job '" + job_name(job_) +
                            "' ended without this node: " + printable(refused.sentence) +
                            (job_.etcd ? "; another job needs another --rdzv_id"
                                       : "; another job needs another port (--rdzv_endpoint)")}});
  }
  if (job_.cannot_run) return handle_event(event::JobClosed{*job_.cannot_run});
  handle_event(event::JobClosed{
      Error{Errc::usage,
            master_endpoint(job_).text() + " refused this node: " + printable(refused.sentence)}});
}

/// In a hang, only one node shows where all ranks are.
void Agent::on(const rendezvous::Stalled& stalled) {
  reporter_.stalled(stalled.text, workers_.statuses(), layout_.round);
  const bool hangs = stalled.text.find('\n') != std::string::npos;
  if (hangs && layout_.node_rank == 0) stacks_.show_all();
}

void Agent::handle_event(Event event) {
  queued_events_.push_back(std::move(event));
  if (handling_event_) return;
  handling_event_ = true;
  while (!queued_events_.empty()) {
    const Event next = std::move(queued_events_.front());
    queued_events_.pop_front();
    if (std::holds_alternative<event::WorkersEnded>(next)) report_stop();
    perform(machine_.on(next));
  }
  handling_event_ = false;
}

/// Logs how the stopped workers ended. After a failure, the report says it for the whole job.
void Agent::report_stop() {
  const std::string line = round_failed_ ? "" : workers_.stop_line();
  if (!line.empty()) log::info(line);
}

void Agent::perform(const Actions& actions) {
  for (const Action& action : actions) {
    std::visit([this](const auto& a) { perform(a); }, action);
  }
}

void Agent::perform(const action::Join&) {
  Result<rendezvous::JoinRequest> request = master_.join_request();
  if (!request) return handle_event(event::JobClosed{request.error()});
  if (was_member_) {
    request->last_round = layout_.round;
    request->last_node_rank = layout_.node_rank;
    request->last_guests = layout_.guests;
    request->last_hosted = hosted_round_;
    request->last_restarts = layout_.restarts;
    request->restarts = restarts_;
    request->worker_exits = workers_.exits();
    report_waiting();
  }
  master_.client().join(std::move(*request));
}

void Agent::perform(const action::StartWorkers& start) {
  if (job_.interface.empty() && master_.hosted()) {
    find_interface(job_, master_.hosted()->agent_addresses());
  }
  sample_first_ = hung_ = round_failed_ = false;
  layout_ = start.layout;
  restarts_ = layout_.restarts;
  was_member_ = true;
  hosted_round_ = master_.has_hosted(master_name_);
  master_.begin_round();
  workers_.start(layout_, master_.store_of(layout_));
  reporter_.round_started(layout_, wait_reporter_.has_reported()
                                       ? std::optional(wait_reporter_.waited())
                                       : std::nullopt);
  wait_reporter_.end();
}

void Agent::perform(const action::ReportFailure& report) {
  report_failure(report.failure);
}

void Agent::perform(const action::ReportStartFailure& report) {
  report_failure(start_failure(report.error, layout_.first_rank + report.local_rank, host_name_));
}

void Agent::report_failure(const rendezvous::Failure& failure) {
  reporter_.worker_failed();
  round_failed_ = true;
  sample_first_ = is_consequence(failure);
  master_.client().fail(layout_.round, failure);
}

void Agent::perform(const action::ReportSuccess&) {
  report_waiting();
  master_.client().succeed(layout_.round);
}

void Agent::perform(const action::StopWorkers& stop) {
  if (stop.signal == SIGKILL) output_.drop_stopped_readers();
  if (hung_ && stop.signal == SIGTERM) return workers_.abort_and_stop(stop.signal);
  if (sample_first_ && stop.signal == SIGTERM) return workers_.look_and_stop(stop.signal);
  workers_.stop(stop.signal, interrupted_by_key_);
}

void Agent::perform(const action::Leave& leave) {
  if (master_.is_open()) master_.client().leave(launcher::signal_name(leave.signal));
}

void Agent::perform(const action::Finish& end) {
  finish(end.outcome);
}

void Agent::report_waiting() {
  wait_reporter_.begin([this](std::chrono::seconds) {
    if (!outcome_) return master_.request_waiting_for();
    reporter_.waiting(wait_reporter_.waited(), master_.hosted()->waiting_for());
  });
}

void Agent::report_job_failure() {
  const rendezvous::Failure& cause = failed_->root_cause;
  const bool workers_have_reported = job_.workers_report && exit_status(cause).code() == 1;
  if (!workers_have_reported) log::error(failure_report(*failed_));
  if (job_.error_file.empty()) return;
  const std::string worker_file =
      failed_->round == layout_.round ? workers_.error_file_of(cause.rank) : "";
  disk_.run(
      [path = job_.error_file, cause, worker_file] {
        return write_error_file_for_caller(path, cause, read_error_file(worker_file));
      },
      [](const Result<>& written) {
        if (!written) log::warning("TORCHELASTIC_ERROR_FILE: " + written.error().message);
      });
}

/// Ends this node's part. The master stays until every node has received the end of the job. If
/// ddprun stop stopped the job, it stays until every node has ended: without it the lease would
/// kill their workers, perhaps before --shutdown_timeout.
void Agent::finish(Outcome outcome) {
  if (failed_ && std::holds_alternative<JobFailed>(outcome)) report_job_failure();
  launcher::disarm_liveness_timer();
  if (master_.is_open()) master_.client().gone("its ddprun ended");
  outcome_ = std::move(outcome);
  reporter_.ended(*outcome_, failed_);
  if (!master_.hosted() || !master_.hosted()->is_ending()) return end();
  report_waiting();
  master_.hosted()->when_settled([this] { end(); });
}

void Agent::end() {
  wait_reporter_.end();
  master_.resign([this] { reporter_.close_page([this] { io_.stop(); }); });
}

/// How long this node's workers run on without the master; zero if they do not.
BootClock::duration Agent::workers_run_for() {
  using Clock = BootClock;
  const bool lost = master_.client().is_unreachable() && lease_end_ != Clock::time_point::max();
  const bool run = machine_.state() == Machine::State::running;
  return lost && run ? lease_end_ - Clock::now() : Clock::duration::zero();
}

bool Agent::runs_workers() const {
  const auto state = machine_.state();
  return state == Machine::State::running || state == Machine::State::stopping;
}

Outcome run(const JobSpec& job, Events& events) {
  return Agent(job, events).run();
}

}  // namespace ddprun::agent
