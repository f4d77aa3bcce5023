// SPDX-License-Identifier: Apache-2.0
#include "agent/node_workers.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "agent/ask/socket_folder.h"
#include "agent/diagnosis/whereabouts.h"
#include "agent/job/first_failure.h"
#include "agent/job/report.h"
#include "agent/worker/worker_devices.h"
#include "agent/worker/worker_env.h"

namespace ddprun::agent {
namespace {

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
  for (int tries = 0; tries < 3; ++tries) {
    const Result<std::string> folder = ask::recorder_path(ask::lasting_folders());
    if (!folder || recorder_.open(job_, setup_.inherited(), *folder)) break;
  }
  std::vector<std::string> environment = setup_.inherited();
  set_variables(environment, recorder_.variables());
  preload_.begin(std::move(environment));
  return {};
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

void NodeWorkers::look_and_stop(int signal) {
  if (!group_ || round_end_.is_stopping() || group_->running().empty()) return stop(signal);
  watch_.look(processes(), [this, signal](WorkerWatch::Observation observed) {
    for (rendezvous::WorkerPlace& place : observed.places) {
      using Kind = rendezvous::WorkerPlace::Kind;
      if (place.kind != Kind::busy && place.kind != Kind::computing) continue;
      std::erase_if(place.ranks, [this](int rank) { return is_about_to_fail(rank); });
    }
    round_end_.set_places(std::move(observed.places), std::move(observed.calls));
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

std::string NodeWorkers::error_file_of(int rank) const {
  const int local_rank = rank - layout_.first_rank;
  if (local_rank < 0 || local_rank >= layout_.local_size) return "";
  return setup_.error_file(local_rank);
}

}  // namespace ddprun::agent
