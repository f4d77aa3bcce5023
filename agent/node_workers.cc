// SPDX-License-Identifier: Apache-2.0
#include "agent/node_workers.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "agent/ask/socket_folder.h"
#include "agent/diagnosis/whereabouts.h"
#include "agent/job/consequence.h"
#include "agent/job/report.h"
#include "agent/worker/template_command.h"
#include "agent/worker/worker_devices.h"
#include "agent/worker/worker_env.h"
#include "agent/worker/worker_setup.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/guardian/survivors.h"
#include "launcher/kernel/descendants.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kFaultHandler = "PYTHONFAULTHANDLER";

constexpr int kCannotServe = 125 << 8;  // as wait(2) has ddprun's exit code for its own failures

constexpr const char* kOrphans = "processes the workers left behind";

std::string uneven_end_text(const std::vector<int>& ended, const std::vector<int>& running,
                            std::chrono::seconds waited) {
  const std::string ago = duration_text(waited) + " ago";
  return ranks_text(ended) +
         (ended.size() == 1 ? " ended " + ago + " with exit code 0"
                            : " ended with exit code 0, the first " + ago) +
         "; " + ranks_text(running) + (running.size() == 1 ? " still runs" : " still run");
}

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

NodeWorkers::NodeWorkers(boost::asio::any_io_executor executor, const JobSpec& job,
                         std::string host_name, launcher::Output& output, Events& events,
                         std::function<void(Event)> handle_event, std::chrono::seconds uneven_end)
    : executor_(std::move(executor)),
      job_(job),
      host_name_(std::move(host_name)),
      output_(output),
      events_(events),
      handle_event_(std::move(handle_event)),
      setup_(executor_, job_, host_name_),
      wait_reporter_(executor_),
      uneven_end_(executor_, uneven_end),
      watch_(executor_, job_.program, host_name_),
      stacks_(executor_, job_.program, host_name_),
      progress_(executor_, job_, output_),
      timers_(executor_),
      preload_(executor_, job_, host_name_, [this] { child_changed(); }),
      mpi_hint_(executor_),
      aborts_(executor_),
      round_end_(executor_, host_name_, round_end_hooks()) {}

RoundEnd::Hooks NodeWorkers::round_end_hooks() {
  return {.first_failure =
              [this](rendezvous::Failure failure) {
                if (failure.cause.empty()) failure.cause = missing_module_text(failure, job_);
                handle_event_(event::WorkerFailed{std::move(failure)});
              },
          .examined = [this](const launcher::WorkerEnd& end,
                             const std::string& exception) { record_end(end, exception); },
          .settled = [this] { finish_when_known(); }};
}

Result<> NodeWorkers::open_files() {
  const Result<> opened = setup_.open_logs();
  if (!opened) return opened;
  timers_.open(setup_.inherited(), setup_.log_folder());
  progress_.open(setup_.inherited());
  const Result<std::string> folder = ask::recorder_path(ask::lasting_folders());
  if (folder) recorder_.open(job_, setup_.inherited(), *folder);
  std::vector<std::string> environment = setup_.inherited();
  set_variables(environment, recorder_.variables());
  preload_.begin(std::move(environment));
  return {};
}

void NodeWorkers::start(const rendezvous::Layout& layout, const rendezvous::Endpoint& store) {
  layout_ = layout;
  round_end_.clear(layout_);
  succeeded_.clear();
  started_.clear();
  aborts_.cancel();
  aborts_.set_unread({});
  mpi_.reset();
  recorder_.begin(layout_.first_rank, layout_.local_size);
  output_.remove_workers();
  group_.emplace(executor_, job_.stop_grace, group_hooks());
  after_forking_ = nullptr;
  setup_.prepare(layout_, store, more_variables(), [this, store](auto workers) {
    end_waiting("the files of --log_dir are there");
    preload_.when_known([this, store,
                         workers = std::make_shared<decltype(workers)>(std::move(workers))](
                            auto failure) {
      end_waiting("the import of " + preloaded_text(job_) + " has ended");
      events_.round_ready(layout_, store.host, store.port);
      failure ? on_import_failed(std::move(*failure)) : start_workers(std::move(*workers), store);
    });
    if (preload_.is_waited_for()) report_waiting();
  });
  if (setup_.is_preparing()) report_waiting();
}

/// No worker ran: the node's first rank stands for all of them.
void NodeWorkers::on_import_failed(rendezvous::Failure failure) {
  failure.rank = layout_.first_rank;
  if (failure.cause.empty()) failure.cause = missing_module_text(failure, job_);
  if (failure.cause.empty()) failure.cause = "importing " + preloaded_text(job_) + " (--preload)";
  handle_event_(event::WorkerFailed{std::move(failure)});
}

launcher::WorkerGroup::Hooks NodeWorkers::group_hooks() {
  const auto process = [this](int local_rank, pid_t pid) {
    return WorkerProcess{layout_.first_rank + local_rank, pid};
  };
  return {.worker_ended = [this](const auto& end) { on_worker_ended(end); },
          .killed = [this](const auto& local_ranks,
                           const auto& processes) { on_killed(local_ranks, processes); },
          .all_ended = [this] { on_all_ended(); },
          .stopping_orphans = [this](const auto& orphans) { on_stopping_orphans(orphans); },
          .worker_held = [this](int) { on_held(); },
          .worker_stopped = [this, process](
                                int local_rank, pid_t pid,
                                int signal) { watch_.stopped(process(local_rank, pid), signal); },
          .worker_continued = [this, process](
                                  int local_rank,
                                  pid_t pid) { watch_.continued(process(local_rank, pid)); }};
}

/// Variables of the workers' environment: where they reach this process.
std::vector<std::string> NodeWorkers::more_variables() {
  std::vector<std::string> all = progress_.variables();
  all.insert(all.end(), timers_.variables().begin(), timers_.variables().end());
  all.insert(all.end(), recorder_.variables().begin(), recorder_.variables().end());
  // It makes Python print its stacks at SIGABRT: see abort_and_stop.
  const bool may_abort = job_.hang_timeout.count() > 0;
  if (may_abort && find_variable(setup_.inherited(), kFaultHandler) == nullptr) {
    all.push_back(std::string(kFaultHandler) + "=1");
  }
  return all;
}

void NodeWorkers::start_workers(Result<Workers> workers, const rendezvous::Endpoint& store) {
  if (job_.cannot_run) return on_start_failed(*job_.cannot_run);
  if (!workers) return on_start_failed(workers.error());
  auto kept = std::make_shared<Workers>(std::move(*workers));
  start_mpi(store, [this, kept](const Result<>& ready) {
    ready ? launch_workers(std::move(*kept)) : on_start_failed(ready.error());
  });
}

void NodeWorkers::on_start_failed(const Error& error) {
  mpi_.reset();
  handle_event_(event::StartFailed{error, group_->size()});
}

void NodeWorkers::launch_workers(Workers workers) {
  std::vector<launcher::Command> commands;
  for (WorkerSetup::Worker& worker : workers) {
    commands.push_back(take_command(worker, job_.tty, output_));
    if (mpi_) mpi_->connect(commands.back(), static_cast<int>(commands.size()) - 1);
  }
  if (preload_.is_ready()) return fork_workers(std::move(workers), std::move(commands));
  Result<std::vector<launcher::Child>> children = group_->start(std::move(commands));
  on_started(std::move(workers), children ? launcher::Forked{std::move(*children), std::nullopt}
                                          : launcher::Forked{{}, children.error()});
}

void NodeWorkers::fork_workers(Workers workers, std::vector<launcher::Command> commands) {
  const auto began = std::chrono::steady_clock::now();
  report_waiting();
  preload_.fork(
      std::move(commands),
      [this, began, workers = std::make_shared<Workers>(std::move(workers))](auto forked) {
        if (!round_end_.is_stopping()) end_waiting("the workers are forked");
        group_->adopt(forked.children, began);
        on_started(std::move(*workers), std::move(forked));
        if (after_forking_) std::exchange(after_forking_, nullptr)();
      });
}

void NodeWorkers::on_started(Workers workers, launcher::Forked started) {
  if (mpi_) mpi_->close_their_ends();
  report_missing_terminals(started.children);
  for (size_t i = 0; i < started.children.size(); ++i) {
    add_output(static_cast<int>(i), std::move(workers[i]), std::move(started.children[i]));
  }
  if (round_end_.is_stopping()) return;
  if (started.failure) return on_start_failed(*started.failure);
  watch_progress();
  if (job_.may_lack_mpi) mpi_hint_.begin(layout_.first_rank, group_->pid_of(0));
  round_end_.watch(!job_.devices.empty());
}

void NodeWorkers::start_mpi(const rendezvous::Endpoint& store,
                            std::function<void(Result<>)> ready) {
  if (job_.mpi == Mpi::none) return ready({});
  mpi_.emplace(
      executor_, job_, layout_,
      MpiRound::Hooks{.failed = [this](const std::string& cause) { on_mpi_failed(cause); },
                      .overdue = [this](int local_rank) { group_->signal(local_rank, SIGKILL); }});
  mpi_->start(store, std::move(ready));
}

/// A failure of the node's first rank that runs, as no rank has failed.
void NodeWorkers::on_mpi_failed(const std::string& cause) {
  if (round_end_.is_stopping() || group_->running().empty()) return;
  const int local_rank = group_->running().front();
  const auto& started = started_[static_cast<size_t>(local_rank)];
  rendezvous::Failure failure;
  failure.rank = layout_.first_rank + local_rank;
  failure.wait_status = kCannotServe;
  failure.pid = group_->pid_of(local_rank);
  failure.seconds = seconds(std::chrono::steady_clock::now() - started.when);
  failure.host = host_name_;
  failure.cause = cause;
  handle_event_(event::WorkerFailed{std::move(failure)});
}

void NodeWorkers::watch_progress() {
  std::map<pid_t, int> ranks;
  for (const WorkerWatch::Process& process : processes()) ranks[process.pid] = process.rank;
  timers_.begin(ranks);
  progress_.begin(std::move(ranks),
                  [this](auto news, auto time) { on_progress_changed(news, time); });
}

/// Reports progress at once, but a lack of it with the places of the workers.
void NodeWorkers::on_progress_changed(HangWatch::News news, std::chrono::duration<double> time) {
  if (!progress_changed_) return;
  progress_news_ = news;
  if (news == HangWatch::News::progress)
    return progress_changed_({layout_.round, false, 0, {}, {}});
  collect_stacks(false, [this, time, round = layout_.round,
                         count = processes().size()](const CollectedStacks& seen) {
    // Progress during the look has been reported already, and wins. An ended worker is progress.
    const bool is_the_same = layout_.round == round && processes().size() == count;
    const bool is_over = progress_news_ == HangWatch::News::progress;
    if (!is_over && is_the_same && !round_end_.is_stopping()) on_hang_seen(time, seen);
  });
}

void NodeWorkers::on_hang_seen(std::chrono::duration<double> time, const CollectedStacks& seen) {
  rendezvous::NodeProgress progress{
      layout_.round, true, time.count(), round_end_.ended_places(), {}};
  std::vector<pid_t> unread;
  for (const WorkerWatch::Process& process : processes()) {
    const auto stack = seen.of_rank.find(process.rank);
    if (stack == seen.of_rank.end()) continue;
    if (!shows_program(stack->second)) unread.push_back(process.pid);
    const auto& calls = seen.calls.at(process.rank);
    progress.places.push_back(
        with_calls(place_with_stack(process.rank, stack->second, still_in_hang(time)), calls));
    if (mpi_) mpi_->describe(process.rank - layout_.first_rank, progress.places.back());
    add_calls(progress.calls, process.rank, calls);
  }
  progress.places = grouped(progress.places);
  if (progress_news_ == HangWatch::News::busy && !may_be_awaited(progress.places)) return;
  aborts_.set_unread(std::move(unread));
  progress_changed_(std::move(progress));
}

void NodeWorkers::add_output(int local_rank, WorkerSetup::Worker worker, launcher::Child child) {
  const int rank = layout_.first_rank + local_rank;
  output_.add_worker(
      rank, worker.prefix,
      is_shown_as_it_is(worker) ? launcher::Buffering::none : launcher::Buffering::line,
      std::move(child.out), std::move(child.err), std::move(worker.sinks[0]),
      std::move(worker.sinks[1]));
  events_.worker_started(layout_.round, rank, local_rank, child.pid);
  if (job_.log_level == log::Level::debug) {
    log::debug(ranks_text({rank}) + " of round " + std::to_string(layout_.round) + " is pid " +
               std::to_string(child.pid));
  }
  ask::RankStatus status;
  status.rank = rank;
  status.pid = child.pid;
  status.state = "running";
  started_.push_back({std::move(status), std::chrono::steady_clock::now()});
}

void NodeWorkers::look_and_stop(int signal) {
  if (!group_ || round_end_.is_stopping() || group_->running().empty()) return stop(signal);
  watch_.look(processes(), [this, signal](WorkerWatch::Seen seen) {
    for (rendezvous::WorkerPlace& place : seen.places) {
      using Kind = rendezvous::WorkerPlace::Kind;
      if (place.kind != Kind::busy && place.kind != Kind::computing) continue;
      std::erase_if(place.ranks, [this](int rank) { return is_about_to_fail(rank); });
    }
    round_end_.set_places(std::move(seen.places), std::move(seen.calls));
    if (!group_->running().empty()) stop(signal);  // else their orphans are stopping already
  });
}

void NodeWorkers::abort_and_stop(int signal) {
  std::vector<pid_t> running;
  for (const WorkerWatch::Process& process : processes()) running.push_back(process.pid);
  const bool is_first = !round_end_.is_stopping();
  if (!is_first || !aborts_.begin(running, [this, signal] { stop(signal); })) stop(signal);
}

/// Whether the worker's stderr mentions a lost peer or a timeout: then it is busy with its end.
bool NodeWorkers::is_about_to_fail(int rank) {
  rendezvous::Failure failure;
  failure.pid = group_->pid_of(rank - layout_.first_rank);
  failure.stderr_tail = output_.stderr_end(rank).text;
  return is_consequence(failure);
}

std::vector<WorkerWatch::Process> NodeWorkers::processes() const {
  std::vector<WorkerWatch::Process> processes;
  if (!group_) return processes;
  for (const int local_rank : group_->running()) {
    const int rank = layout_.first_rank + local_rank;
    processes.push_back({rank, group_->pid_of(local_rank), recorder_.socket_of(rank)});
  }
  return processes;
}

void NodeWorkers::stop(int signal, bool to_whole_groups) {
  if (!group_) return;
  end_watches();
  aborts_.cancel();
  setup_.cancel();
  preload_.cancel();
  if (mpi_ && mpi_->is_starting()) mpi_.reset();
  const bool is_first = !round_end_.is_stopping();
  round_end_.stop(signal);
  if (is_first) events_.round_stopping(layout_.round, signal);
  if (is_first || !group_->is_killing()) report_waiting();  // a second one kills
  if (!preload_.is_forking()) return group_->stop(signal, to_whole_groups);
  preload_.stop_forking(!is_first || signal == SIGKILL);
  after_forking_ = [=, this] { group_->stop(signal, to_whole_groups); };
}

bool NodeWorkers::interrupt(int rank) {
  const int local_rank = rank - layout_.first_rank;
  return group_ && !round_end_.is_stopping() && group_->signal(local_rank, SIGINT);
}

void NodeWorkers::window_changed() {
  output_.window_changed();
  if (!group_) return;
  for (const int local_rank : group_->running()) group_->signal(local_rank, SIGWINCH);
}

void NodeWorkers::child_changed() {
  if (group_) group_->child_changed();
}

std::vector<int> NodeWorkers::running() const {
  std::vector<int> ranks;
  if (!group_) return ranks;
  for (const int local_rank : group_->running()) ranks.push_back(layout_.first_rank + local_rank);
  return ranks;
}

std::vector<ask::RankStatus> NodeWorkers::ranks() const {
  const auto now = std::chrono::steady_clock::now();
  std::vector<ask::RankStatus> ranks;
  for (const Started& worker : started_) {
    ask::RankStatus& rank = ranks.emplace_back(worker.status);
    if (rank.state == "running") rank.seconds = seconds(now - worker.when);
    rank.recorder = recorder_.socket_of(rank.rank);
    const auto last = output_.last_output(rank.rank);
    if (last) rank.output_age = seconds(now - *last);
    const ProgressMonitor::Reported reported = progress_.reported(rank.rank);
    if (reported.beat) rank.heartbeat_age = seconds(now - *reported.beat);
    rank.progress = reported.status;
    std::string devices = device_names(job_, rank.rank - layout_.first_rank);
    if (!devices.empty()) rank.gpu = ask::GpuStatus{.names = std::move(devices)};
  }
  return ranks;
}

std::optional<ask::LogPiece> NodeWorkers::log(int rank, std::uint64_t from) const {
  const int local_rank = rank - layout_.first_rank;
  if (local_rank < 0 || static_cast<size_t>(local_rank) >= started_.size()) return std::nullopt;
  auto recent = output_.recent_output(rank, from, ask::kMaxPiece);
  ask::LogPiece piece = ask::log_piece(rank, layout_.round, recent.from, std::move(recent.bytes));
  piece.files = setup_.redirected_to(local_rank);
  return piece;
}

void NodeWorkers::note_end(const launcher::WorkerEnd& end) {
  const auto local_rank = static_cast<size_t>(end.local_rank);
  if (local_rank >= started_.size()) return;
  ask::RankStatus& rank = started_[local_rank].status;
  const bool succeeded = !end.exec_failure && end.status.success();
  rank.state = succeeded || end.stopped ? "ended" : "failed";
  rank.how = end.exec_failure ? "could not be started" : end.status.text();
  rank.seconds = seconds(end.ran);
  if (job_.log_level == log::Level::debug) {
    log::debug(ranks_text({rank.rank}) + " has ended after " + duration_text(end.ran) + ": " +
               rank.how);
  }
}

void NodeWorkers::on_worker_ended(launcher::WorkerEnd end) {
  end.stopped = end.stopped || aborts_.is_printing(end.pid);
  note_end(end);
  if (!round_end_.is_stopping()) end_waiting("its tracer has let the worker go");
  timers_.worker_ended(end.pid);
  if (mpi_ && !end.stopped && !end.exec_failure) {
    mpi_->ended(end.local_rank, [this, end] { take_end(end); });
  } else {
    take_end(end);
  }
  if (mpi_ && running().empty()) mpi_->finish();
  aborts_.ended(end.pid);  // last: it may call stop(), and so end the round
}

void NodeWorkers::take_end(launcher::WorkerEnd end) {
  std::string cause = timers_.cause(end.pid);
  const auto failure = mpi_ && !end.stopped
                           ? mpi_failure(mpi_->of(end.local_rank), end.status, layout_.world_size)
                           : std::nullopt;
  if (failure) std::tie(end.status, cause) = std::tie(failure->status, failure->cause);
  if (end.stopped || (!end.exec_failure && !end.status.success())) {
    return round_end_.ended(end, trace_places(end), std::move(cause));
  }
  record_end(end, "");
  if (end.exec_failure) {
    round_end_.not_started(end.local_rank);
    handle_event_(event::StartFailed{*end.exec_failure, end.local_rank});
  } else {
    on_success(layout_.first_rank + end.local_rank);
  }
}

/// Warns if others run on: they may wait in a collective for the worker that has ended.
void NodeWorkers::on_success(int rank) {
  succeeded_.push_back(rank);
  round_end_.succeeded(rank);
  if (succeeded_.size() > 1) return;
  uneven_end_.begin([this](std::chrono::seconds waited) {
    if (!running().empty()) log::warning(uneven_end_text(succeeded_, running(), waited));
  });
}

void NodeWorkers::record_end(const launcher::WorkerEnd& end, const std::string& exception) {
  events_.worker_ended(layout_.round, layout_.first_rank + end.local_rank, end.local_rank, end.pid,
                       end.status, seconds(end.ran), exception);
}

TracePlaces NodeWorkers::trace_places(const launcher::WorkerEnd& end) const {
  return {setup_.error_file(end.local_rank), setup_.redirected_to(end.local_rank),
          setup_.log_folder_of(end.local_rank),
          recorder_.file_of(layout_.first_rank + end.local_rank),
          output_.stderr_end(layout_.first_rank + end.local_rank)};
}

void NodeWorkers::on_killed(const std::vector<int>& local_ranks,
                            const std::vector<launcher::Descendant>& processes) {
  std::vector<int> ranks;
  for (const int local_rank : local_ranks) ranks.push_back(layout_.first_rank + local_rank);
  std::string what = launcher::refusal_text(processes);
  if (what.empty()) what = ranks.empty() ? "killed " + launcher::names_text(processes) : "killed";
  log::warning((ranks.empty() ? std::string(kOrphans) : ranks_text(ranks)) +
               " did not stop within " + duration_text(job_.stop_grace) +
               " (--shutdown_timeout): " + what);
  report_waiting();
}

/// A worker has ended, by itself or killed, but cannot be reaped yet.
void NodeWorkers::on_held() {
  if (!wait_reporter_.is_under_way()) report_waiting();
}

/// Warns, because torchrun lets orphans run on.
void NodeWorkers::on_stopping_orphans(const std::vector<launcher::Descendant>& orphans) {
  log::warning(std::string("stopping ") + kOrphans + " (SIGTERM, and SIGKILL after " +
               duration_text(job_.stop_grace) +
               ", --shutdown_timeout): " + launcher::names_text(orphans));
  report_waiting();
}

/// Stops reporting on this round's workers.
void NodeWorkers::end_watches() {
  watch_.cancel();
  progress_.end();
  uneven_end_.end();
  mpi_hint_.cancel();
}

void NodeWorkers::on_all_ended() {
  if (mpi_) mpi_->give_up();
  end_watches();
  end_waiting("all processes of the workers have ended");
  report_waiting();
  output_.workers_are_gone();
  round_end_.all_ended(group_->killed());
  finish_when_known();
}

void NodeWorkers::finish_when_known() {
  if (!round_end_.is_known()) return;
  output_.when_drained([this] {
    end_waiting("ddprun's output is written");
    handle_event_(event::WorkersEnded{});
  });
}

void NodeWorkers::report_waiting() {
  wait_reporter_.begin([this](std::chrono::seconds waited) {
    log::info(round_end_.first_failure() + "waiting " + duration_text(waited) + " for " +
              waiting_for());
  });
}

void NodeWorkers::end_waiting(std::string_view news) {
  if (wait_reporter_.has_reported()) {
    log::info(std::string(news) + " after " + duration_text(wait_reporter_.waited()));
  }
  wait_reporter_.end();
}

std::string NodeWorkers::waiting_for() const {
  if (setup_.is_preparing()) return "the disk of --log_dir, which does not create files";
  if (preload_.is_waited_for()) return preload_.importing() + " (--preload)";
  if (preload_.is_forking()) return "the process of --preload to fork the workers";
  if (round_end_.have_all_ended())
    return "ddprun's output to be written: its reader or its disk has stopped";
  if (!round_end_.is_stopping() && !running().empty()) {
    std::vector<launcher::Descendant> held = launcher::unreaped_descendants();
    std::erase_if(held, [](const auto& process) { return !launcher::has_ended(process); });
    return "the end of a worker: " + launcher::survivors_text(held);
  }
  const bool is_any_running = !running().empty();
  const std::string who = is_any_running ? ranks_text(running()) : std::string(kOrphans);
  if (group_->is_killing())
    return who +
           " to end after SIGKILL: " + launcher::survivors_text(launcher::unreaped_descendants());
  return who + " to stop (" + (is_any_running ? round_end_.exits().signal : "SIGTERM") +
         "); killing them after " + duration_text(job_.stop_grace) + " (--shutdown_timeout)" +
         (is_any_running ? "" : ": " + launcher::names_text(launcher::descendants()));
}

std::string NodeWorkers::error_file_of(int rank) const {
  const int local_rank = rank - layout_.first_rank;
  if (local_rank < 0 || local_rank >= layout_.local_size) return "";
  return setup_.error_file(local_rank);
}

}  // namespace ddprun::agent
