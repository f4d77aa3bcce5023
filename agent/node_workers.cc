// SPDX-License-Identifier: Apache-2.0
#include "agent/node_workers.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <sys/resource.h>
#include <utility>

#include "agent/consequence.h"
#include "agent/failure_traces.h"
#include "agent/whereabouts.h"
#include "agent/worker_devices.h"
#include "agent/worker_env.h"
#include "agent/worker_terminal.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/descendants.h"
#include "launcher/signal_catchers.h"

namespace ddprun::agent {
namespace {

/// In less time no worker fills a machine's memory.
constexpr std::chrono::milliseconds kOomDelay{20};

/// How long a failure may wait for the files that explain it.
constexpr std::chrono::seconds kExamination{1};

/// How long one that speaks of a lost peer may wait for that one's end: an interpreter with a GPU
/// may take as long to end.
constexpr std::chrono::seconds kLostPeer{2};

constexpr std::string_view kFaultHandler = "PYTHONFAULTHANDLER";

/// How long a worker may print its stacks.
constexpr std::chrono::seconds kAbort{1};

/// `ranks` are the workers that run; without any, only processes that they started do.
std::string processes_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return "processes the workers left behind";
  return ranks_text(ranks);
}

std::string uneven_end_text(const std::vector<int>& ended, const std::vector<int>& running,
                            std::chrono::seconds waited) {
  const std::string ago = duration_text(waited) + " ago";
  return processes_text(ended) +
         (ended.size() == 1 ? " ended " + ago + " with exit code 0"
                            : " ended with exit code 0, the first " + ago) +
         "; " + processes_text(running) + (running.size() == 1 ? " still runs" : " still run");
}

/// Of processes that got SIGKILL.
std::string why_alive() {
  const std::string reason = launcher::unkillable_text(launcher::descendants());
  return reason.empty() ? "" : ": " + reason;
}

/// Sends SIGABRT to a worker that prints its stacks at it. Its memory is not worth a core.
bool abort_printing(pid_t pid) {
  rlimit core{};
  if (prlimit(pid, RLIMIT_CORE, nullptr, &core) == 0) {
    core.rlim_cur = 0;
    prlimit(pid, RLIMIT_CORE, &core, nullptr);
  }
  return launcher::signal_catchers(pid, SIGABRT);
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
      disk_(executor_),
      oom_begins_(executor_),
      wait_reporter_(executor_),
      uneven_end_(executor_, uneven_end),
      watch_(executor_, job_.program, host_name_),
      stacks_(executor_, job_.program, host_name_),
      progress_(executor_, job_, output_),
      timers_(executor_),
      abort_limit_(executor_) {}

Result<> NodeWorkers::open_files() {
  const Result<> opened = setup_.open_logs();
  if (opened) timers_.open(setup_.inherited(), setup_.log_folder());
  return opened;
}

void NodeWorkers::start(const rendezvous::Layout& layout, const rendezvous::Endpoint& store) {
  layout_ = layout;
  failures_.clear();
  cause_limit_.reset();
  first_failure_.clear();
  succeeded_.clear();
  started_.clear();
  all_ended_ = false;
  stop_signal_ = 0;
  exits_ = {};
  unread_.clear();
  aborted_.clear();
  output_.remove_workers();
  group_.emplace(executor_, job_.stop_grace,
                 launcher::WorkerGroup::Hooks{
                     [this](const launcher::WorkerEnd& end) { on_worker_ended(end); },
                     [this](const std::vector<int>& local_ranks) { on_killing(local_ranks); },
                     [this] { on_all_ended(); },
                     [this](int local_rank, pid_t pid, int signal) {
                       watch_.stopped({layout_.first_rank + local_rank, pid}, signal);
                     },
                     [this](int local_rank, pid_t pid) {
                       watch_.continued({layout_.first_rank + local_rank, pid});
                     }});
  setup_.prepare(layout_, store, more_variables(), [this, store](auto workers) {
    wait_reporter_.end();
    events_.round_ready(layout_, store.host, store.port);
    const Result<> started = start_workers(std::move(workers));
    started ? watch_for_oom() : handle_event_(event::StartFailed{started.error()});
  });
  if (setup_.is_preparing()) report_waiting();
}

/// Of the workers' environment: where they reach this process.
std::vector<std::string> NodeWorkers::more_variables() {
  std::vector<std::string> all = progress_.variables(setup_.inherited());
  all.insert(all.end(), timers_.variables().begin(), timers_.variables().end());
  // With it Python prints its stacks at SIGABRT: see abort_and_stop.
  const bool may_abort = job_.hang_timeout.count() > 0;
  if (may_abort && find_variable(setup_.inherited(), kFaultHandler) == nullptr) {
    all.push_back(std::string(kFaultHandler) + "=1");
  }
  return all;
}

Result<> NodeWorkers::start_workers(Result<std::vector<WorkerSetup::Worker>> workers) {
  if (job_.cannot_run) return *job_.cannot_run;
  if (!workers) return workers.error();
  std::vector<launcher::Command> commands;
  for (WorkerSetup::Worker& worker : *workers) {
    commands.push_back(take_command(worker, job_.tty, output_));
  }
  Result<std::vector<launcher::Child>> children = group_->start(commands);
  if (!children) return children.error();
  report_missing_terminals(*children);
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    const auto i = static_cast<size_t>(local_rank);
    add_output(local_rank, std::move((*workers)[i]), std::move((*children)[i]));
  }
  watch_progress();
  return {};
}

void NodeWorkers::watch_progress() {
  std::map<pid_t, int> ranks;
  for (const WorkerWatch::Process& process : processes()) ranks[process.pid] = process.rank;
  timers_.begin(ranks);
  progress_.begin(std::move(ranks), [this](bool quiet, std::chrono::duration<double> time) {
    on_progress_changed(quiet, time);
  });
}

/// Where they are is what their node knows of a hang.
void NodeWorkers::on_progress_changed(bool quiet, std::chrono::duration<double> time) {
  if (!progress_changed_) return;
  is_quiet_ = quiet;
  if (!quiet) return progress_changed_({layout_.round, false, 0, {}, {}});
  collect_stacks(false, [this, time, round = layout_.round](const CollectedStacks& seen) {
    // If some went on during the look, that was said, and is the last word.
    if (is_quiet_ && layout_.round == round && stop_signal_ == 0) on_hang_seen(time, seen);
  });
}

void NodeWorkers::on_hang_seen(std::chrono::duration<double> time, const CollectedStacks& seen) {
  rendezvous::NodeProgress progress{layout_.round, true, time.count(), {}, {}};
  unread_.clear();
  for (const WorkerWatch::Process& process : processes()) {
    const auto stack = seen.of_rank.find(process.rank);
    if (stack == seen.of_rank.end()) continue;
    if (!shows_program(stack->second)) unread_.push_back(process.pid);
    const auto& calls = seen.calls.at(process.rank);
    progress.places.push_back(with_calls(place_with_stack(process.rank, stack->second), calls));
    add_calls(progress.calls, process.rank, calls);
  }
  progress.places = grouped(progress.places);
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
  ask::RankStatus status;
  status.rank = rank;
  status.pid = child.pid;
  status.state = "running";
  started_.push_back({std::move(status), std::chrono::steady_clock::now()});
}

/// A little later, so that it does not take the processor from workers that begin.
void NodeWorkers::watch_for_oom() {
  oom_.reset();
  oom_begins_.expires_after(kOomDelay);
  oom_begins_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    oom_.emplace();
    if (!job_.devices.empty()) gpu_errors_.emplace();
  });
}

void NodeWorkers::look_and_stop(int signal) {
  if (!group_ || stop_signal_ != 0 || group_->running().empty()) return stop(signal);
  watch_.look(processes(), [this, signal](WorkerWatch::Seen seen) {
    for (rendezvous::WorkerPlace& place : seen.places) {
      if (place.kind != rendezvous::WorkerPlace::Kind::busy) continue;
      std::erase_if(place.ranks, [this](int rank) { return is_about_to_fail(rank); });
    }
    exits_.places = std::move(seen.places);
    exits_.calls = std::move(seen.calls);
    if (!group_->running().empty()) stop(signal);  // else what they left is being stopped
  });
}

void NodeWorkers::abort_and_stop(int signal) {
  std::vector<pid_t> unread;
  for (const WorkerWatch::Process& process : processes()) {
    if (std::ranges::count(unread_, process.pid) > 0) unread.push_back(process.pid);
  }
  if (stop_signal_ != 0 || unread.empty()) return stop(signal);
  aborted_.insert(unread.begin(), unread.end());  // some end before it is known who got it
  disk_.run(
      [unread] {
        std::set<pid_t> signalled;
        for (const pid_t pid : unread) {
          if (abort_printing(pid)) signalled.insert(pid);
        }
        return signalled;
      },
      [this, signal, round = layout_.round](const std::set<pid_t>& signalled) {
        if (layout_.round != round || stop_signal_ != 0) return;
        std::erase_if(aborted_, [&](pid_t pid) { return !signalled.contains(pid); });
        on_aborted(signal);
      });
}

/// Stops the workers when those that got SIGABRT have ended.
void NodeWorkers::on_aborted(int signal) {
  const std::vector<WorkerWatch::Process> left = processes();
  const bool any_prints = std::ranges::any_of(
      left, [this](const auto& process) { return aborted_.contains(process.pid); });
  if (!any_prints) return stop(signal);
  abort_limit_.expires_after(kAbort);
  abort_limit_.async_wait([this, signal, round = layout_.round](boost::system::error_code ec) {
    if (!ec && layout_.round == round && stop_signal_ == 0) stop(signal);
  });
}

/// For want of a peer, too: it has said so, and is busy with ending itself.
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
    processes.push_back({layout_.first_rank + local_rank, group_->pid_of(local_rank)});
  }
  return processes;
}

void NodeWorkers::stop(int signal) {
  if (!group_) return;
  watch_.cancel();
  progress_.end();
  uneven_end_.end();
  setup_.cancel();
  if (stop_signal_ == 0) {
    stop_signal_ = signal;
    exits_.signal = launcher::signal_name(signal);
    stop_began_ = std::chrono::steady_clock::now();
    clock_gettime(CLOCK_REALTIME_COARSE, &stop_dated_);
    events_.round_stopping(layout_.round, signal);
    report_waiting();
  }
  group_->stop(signal);
  // The cause has come from another node.
  if (failures_.give_up() && all_ended_) {
    boost::asio::post(executor_, [this] { finish_when_examined(); });
  }
}

void NodeWorkers::forward(int signal) {
  if (group_) group_->forward(signal);
}

bool NodeWorkers::interrupt(int rank) {
  const int local_rank = rank - layout_.first_rank;
  return group_ && stop_signal_ == 0 && group_->signal(local_rank, SIGINT);
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
}

void NodeWorkers::on_worker_ended(launcher::WorkerEnd end) {
  const bool has_printed = aborted_.erase(end.pid) > 0 && stop_signal_ == 0;
  end.stopped = end.stopped || has_printed;
  note_end(end);
  timers_.worker_ended(end.pid);
  if (has_printed) on_aborted(SIGTERM);
  if (end.stopped || (!end.exec_failure && !end.status.success())) return examine(end);
  record_end(end, "");
  if (end.exec_failure) {
    exits_.victims.push_back({layout_.first_rank + end.local_rank, "could not be started"});
    handle_event_(event::StartFailed{*end.exec_failure, end.local_rank});
  } else {
    on_success(layout_.first_rank + end.local_rank);
  }
}

/// Workers that wait in a collective for one that has ended would wait in silence.
void NodeWorkers::on_success(int rank) {
  succeeded_.push_back(rank);
  if (succeeded_.size() > 1) return;
  uneven_end_.begin([this](std::chrono::seconds waited) {
    if (!running().empty()) log::info(uneven_end_text(succeeded_, running(), waited));
  });
}

void NodeWorkers::record_end(const launcher::WorkerEnd& end, const std::string& exception) {
  events_.worker_ended(layout_.round, layout_.first_rank + end.local_rank, end.local_rank, end.pid,
                       end.status, seconds(end.ran), exception);
}

/// Concluded once: by the files, or by the limit.
struct NodeWorkers::Examination {
  boost::asio::steady_timer limit;
  bool concluded = false;
};

/// Its number in failures_.
std::size_t NodeWorkers::note_failure(const launcher::WorkerEnd& end) {
  exits_.victims.push_back({layout_.first_rank + end.local_rank, end.status.text()});
  return failures_.ended();
}

/// Reads what the worker left in files, which may take as long as their disk does; and the rest of
/// its pipe at once. Of one that was stopped: whether it had reported an exception before.
void NodeWorkers::examine(const launcher::WorkerEnd& end) {
  ++under_examination_;
  const std::optional<std::size_t> number =
      end.stopped ? std::nullopt : std::optional(note_failure(end));
  auto examination =
      std::make_shared<Examination>(Examination{boost::asio::steady_timer(executor_)});
  const auto conclude = [this, examination, end, number](const Traces& traces) {
    if (std::exchange(examination->concluded, true)) return;
    examination->limit.cancel();
    on_examined(end, number, traces);
  };
  const auto stderr_end = end.stopped ? launcher::Output::StderrEnd()
                                      : output_.stderr_end(layout_.first_rank + end.local_rank);
  examination->limit.expires_after(kExamination);
  examination->limit.async_wait([conclude, text = stderr_end.text](boost::system::error_code ec) {
    if (!ec) conclude({{}, text, {}, {}});
  });
  disk_.run(
      [path = setup_.error_file(end.local_rank), when = stop_dated_, stderr_end, end,
       files = setup_.redirected_to(end.local_rank)] {
        const std::string file =
            end.stopped ? read_error_file_of_before(path, when) : read_error_file(path);
        const bool may_lack_space = !end.stopped && end.status.signal() != SIGKILL;
        return Traces{parse_error_file(file).value_or(WorkerException()), stderr_end.read(),
                      may_lack_space ? full_disk_text(files) : "", core_of(end.status, end.pid)};
      },
      conclude);
}

void NodeWorkers::on_examined(const launcher::WorkerEnd& end, std::optional<std::size_t> number,
                              const Traces& traces) {
  const std::string& exception = traces.exception.message;
  record_end(end, exception);
  rendezvous::Failure failure = failure_of(end, traces);
  // A worker that speaks of a lost peer did not fail for want of space, and is still looked at.
  if (!is_consequence(failure)) failure.cause = traces.cause;
  if (failure.cause.empty()) failure.cause = timers_.cause(end.pid);
  if (!traces.core.empty()) log::info(rank_text(end.local_rank) + " left a core: " + traces.core);
  if (end.stopped && exception.empty()) exits_.stopped.push_back(failure.rank);
  if (end.stopped && !exception.empty()) exits_.victims.push_back({failure.rank, exception});
  note_consequence(failure);
  if (number) settle(failures_.examined(*number, std::move(failure)));
  --under_examination_;
  finish_when_examined();
}

void NodeWorkers::note_consequence(const rendezvous::Failure& failure) {
  for (rendezvous::Victim& victim : exits_.victims) {
    if (victim.rank == failure.rank) victim.consequence = is_consequence(failure);
  }
}

/// Reports `first`, or waits for it if all failures speak of a lost peer and it may still come.
void NodeWorkers::settle(std::optional<rendezvous::Failure> first) {
  const bool is_alone = layout_.local_size == layout_.world_size;
  if (!first && (stop_signal_ != 0 || (all_ended_ && is_alone))) first = failures_.give_up();
  if (first) return report_first(std::move(*first));
  if (failures_.waits_for_cause() && !cause_limit_) wait_for_cause();
}

void NodeWorkers::wait_for_cause() {
  cause_limit_.emplace(executor_, kLostPeer);
  cause_limit_->async_wait([this](boost::system::error_code cancelled) {
    if (cancelled) return;
    auto first = failures_.give_up();
    if (!first) return;
    report_first(std::move(*first));
    finish_when_examined();
  });
}

void NodeWorkers::report_first(rendezvous::Failure failure) {
  const int signal = exit_status(failure).signal();
  std::string cause = oom_ ? oom_->cause(failure.pid, signal) : "";
  if (cause.empty() && gpu_errors_) cause = gpu_errors_->cause(failure.pid);
  if (!cause.empty()) failure.cause = std::move(cause);
  note_consequence(failure);
  first_failure_ = rank_text(failure.rank - layout_.first_rank) + " failed (" +
                   exit_status(failure).text() + "); ";
  handle_event_(event::WorkerFailed{failure});
}

void NodeWorkers::on_killing(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks;
  for (const int local_rank : local_ranks) ranks.push_back(layout_.first_rank + local_rank);
  log::warning(processes_text(ranks) + " did not stop within " + duration_text(job_.stop_grace) +
               " (--shutdown_timeout): killed");
}

void NodeWorkers::on_all_ended() {
  all_ended_ = true;
  watch_.cancel();
  progress_.end();
  uneven_end_.end();
  report_waiting();
  if (stop_signal_ != 0) exits_.seconds = seconds(std::chrono::steady_clock::now() - stop_began_);
  for (const int local_rank : group_->killed()) {
    exits_.killed.push_back(layout_.first_rank + local_rank);
  }
  output_.workers_are_gone();
  settle(std::nullopt);
  finish_when_examined();
}

void NodeWorkers::finish_when_examined() {
  if (!all_ended_ || under_examination_ > 0 || failures_.waits_for_cause()) return;
  output_.when_drained([this] {
    wait_reporter_.end();
    handle_event_(event::WorkersEnded{});
  });
}

void NodeWorkers::report_waiting() {
  wait_reporter_.begin([this](std::chrono::seconds waited) {
    log::info(first_failure_ + "waiting " + duration_text(waited) + " for " + waiting_for());
  });
}

std::string NodeWorkers::waiting_for() const {
  if (setup_.is_preparing()) return "the disk of --log_dir, which does not create files";
  if (all_ended_) return "ddprun's output to be written: its reader or its disk has stopped";
  if (group_->is_killing())
    return processes_text(running()) + " to end after SIGKILL" + why_alive();
  return processes_text(running()) + " to stop (" + exits_.signal + "); killing them after " +
         duration_text(job_.stop_grace) + " (--shutdown_timeout)";
}

std::string NodeWorkers::error_file_of(int rank) const {
  const int local_rank = rank - layout_.first_rank;
  if (local_rank < 0 || local_rank >= layout_.local_size) return "";
  return setup_.error_file(local_rank);
}

rendezvous::Failure NodeWorkers::failure_of(const launcher::WorkerEnd& end, const Traces& traces) {
  rendezvous::Failure failure;
  failure.rank = layout_.first_rank + end.local_rank;
  failure.wait_status = end.status.wait_status();
  failure.pid = end.pid;
  failure.seconds = seconds(end.ran);
  failure.host = host_name_;
  failure.stderr_tail = traces.stderr_end;
  failure.exception = traces.exception.message;
  failure.traceback = traces.exception.traceback;
  return failure;
}

std::string NodeWorkers::rank_text(int local_rank) const {
  return "rank " + std::to_string(layout_.first_rank + local_rank);
}

}  // namespace ddprun::agent
