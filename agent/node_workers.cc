// SPDX-License-Identifier: Apache-2.0
#include "agent/node_workers.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "agent/worker_command.h"
#include "agent/worker_place.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/output/prefix.h"

namespace ddprun::agent {
namespace {

std::vector<std::string> inherited_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return variables;
}

/// In less time no worker fills a machine's memory.
constexpr std::chrono::milliseconds kOomDelay{20};

/// The workers that are left; when there are none, what they had left behind.
std::string name_processes(const std::vector<int>& ranks) {
  if (ranks.empty()) return "processes the workers left behind";
  return (ranks.size() == 1 ? "rank " : "ranks ") + compress_ranks(ranks);
}

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

NodeWorkers::NodeWorkers(boost::asio::any_io_executor executor, const JobSpec& job,
                         std::string host, launcher::Output& output, Events& events,
                         std::function<void(Event)> happened)
    : executor_(std::move(executor)),
      job_(job),
      host_(std::move(host)),
      output_(output),
      events_(events),
      happened_(std::move(happened)),
      inherited_(inherited_environment()),
      oom_begins_(executor_),
      patience_(executor_) {}

Result<> NodeWorkers::open_logs() {
  const bool wants_files = job_.logs.wants_files();
  const Result<> opened = logs_.open(job_.log_dir, job_.run_id, wants_files);
  if (!opened) {
    Error error = opened.error();
    if (error.code == Errc::usage) return error;
    if (wants_files) {
      return Error{Errc::usage,
                   "no place for log files: " + error.message + "; give --log_dir DIR"};
    }
    log::warning(error.message +
                 ": workers get no TORCHELASTIC_ERROR_FILE (--log_dir DIR gives them a place)");
  }
  if (wants_files && job_.log_dir.empty()) log::info("log files are in " + logs_.path());
  return {};
}

Result<> NodeWorkers::start(const rendezvous::Layout& layout, const rendezvous::Endpoint& store) {
  layout_ = layout;
  failure_.clear();
  all_ended_ = false;
  stop_signal_ = 0;
  aftermath_ = {};
  output_.remove_workers();
  group_.emplace(executor_, job_.stop_grace,
                 launcher::WorkerGroup::Hooks{
                     [this](const launcher::WorkerEnd& end) { on_worker_ended(end); },
                     [this](const std::vector<int>& local_ranks) { on_killing(local_ranks); },
                     [this] { on_all_ended(); }});
  if (!no_input_) no_input_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!no_input_) return os_error("cannot open /dev/null", errno);

  begin_attempt();
  const WorkerEnv env(job_, inherited_, layout_, store);
  if (env.limits_omp_threads() && !std::exchange(said_omp_, true)) {
    log::info("OMP_NUM_THREADS=1 is set for every worker; set it yourself to change that");
  }
  events_.round_ready(layout_, store.host, store.port);
  const Result<> started = start_workers(env);
  if (!started) return started;
  watch_for_oom();
  return {};
}

void NodeWorkers::begin_attempt() {
  const Result<> begun = logs_.begin_attempt(layout_.round, layout_.local_size);
  said_no_logs_ = !begun;
  if (!begun) log::warning(begun.error().message + ": this round has no log nor error files");
}

/// Of stdout and stderr. What cannot go to a file is on the console, so that it is not lost.
std::array<launcher::StreamSink, 2> NodeWorkers::open_sinks(launcher::AttemptLogs& logs,
                                                            int local_rank) {
  std::array<launcher::StreamSink, 2> sinks;
  const std::array streams = {launcher::LogDir::Stream::out, launcher::LogDir::Stream::err};
  for (size_t i = 0; i < sinks.size(); ++i) {
    Result<launcher::StreamSink> sink = logs.sink(local_rank, streams[i]);
    if (sink) {
      sinks[i] = std::move(*sink);
    } else if (!std::exchange(said_no_logs_, true)) {
      log::warning(sink.error().message + ": the output is on the console instead");
    }
  }
  return sinks;
}

/// A little later, so that it does not take the processor from workers that begin.
void NodeWorkers::watch_for_oom() {
  oom_.reset();
  oom_begins_.expires_after(kOomDelay);
  oom_begins_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) oom_.emplace();
  });
}

std::string NodeWorkers::rank_text(int local_rank) const {
  return "rank " + std::to_string(layout_.first_rank + local_rank);
}

Result<> NodeWorkers::start_workers(const WorkerEnv& env) {
  std::vector<launcher::Command> commands;
  std::vector<std::string> prefixes;
  std::vector<std::array<launcher::StreamSink, 2>> sinks;
  launcher::AttemptLogs logs(job_.logs, logs_);
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    const bool reads_input = layout_.first_rank + local_rank == 0;
    sinks.push_back(open_sinks(logs, local_rank));
    commands.push_back({job_.program, worker_command(job_, local_rank),
                        env.of(local_rank, logs_.error_file(local_rank)),
                        reads_input ? STDIN_FILENO : no_input_.get(), sinks.back()[0].direct_fd(),
                        sinks.back()[1].direct_fd(), cpus_of(local_rank)});
    Result<std::string> prefix = prefix_of(local_rank);
    if (!prefix) return prefix.error();
    prefixes.push_back(std::move(*prefix));
  }
  if (job_.report_bindings) tell_places();
  Result<std::vector<launcher::Child>> children = group_->start(commands);
  if (!children) return children.error();
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    const auto i = static_cast<size_t>(local_rank);
    watch(local_rank, prefixes[i], std::move((*children)[i]), std::move(sinks[i]));
  }
  return {};
}

std::vector<int> NodeWorkers::cpus_of(int local_rank) const {
  if (!job_.numa_binding) return {};
  return job_.bindings[static_cast<size_t>(local_rank)].cpus;
}

void NodeWorkers::tell_places() const {
  for (int local_rank = 0; local_rank < layout_.local_size; ++local_rank) {
    log::info(rank_text(local_rank) + " (local " + std::to_string(local_rank) +
              "): " + worker_place(job_, local_rank));
  }
}

void NodeWorkers::watch(int local_rank, const std::string& prefix, launcher::Child child,
                        std::array<launcher::StreamSink, 2> sinks) {
  const int rank = layout_.first_rank + local_rank;
  const bool alone = layout_.world_size == 1 && prefix.empty();
  output_.add_worker(rank, prefix, alone ? launcher::Buffering::none : launcher::Buffering::line,
                     std::move(child.out), std::move(child.err), std::move(sinks[0]),
                     std::move(sinks[1]));
  events_.worker_started(layout_.round, rank, local_rank, child.pid);
}

/// The default prefix only tells workers apart, so a worker that is alone has none.
Result<std::string> NodeWorkers::prefix_of(int local_rank) const {
  if (!job_.prefix) return std::string();
  if (layout_.world_size == 1 && *job_.prefix == launcher::kDefaultPrefix) return std::string();
  launcher::PrefixFacts facts;
  facts.rank = layout_.first_rank + local_rank;
  facts.local_rank = local_rank;
  facts.node_rank = layout_.node_rank;
  facts.world_size = layout_.world_size;
  facts.restart = layout_.restarts;
  facts.host = host_;
  facts.role_name = job_.role;
  return launcher::expand_prefix(*job_.prefix, facts);
}

void NodeWorkers::stop(int signal) {
  if (!group_) return;
  if (stop_signal_ == 0) {
    stop_signal_ = signal;
    aftermath_.signal = launcher::signal_name(signal);
    stop_began_ = std::chrono::steady_clock::now();
    events_.round_stopping(layout_.round, signal);
    say_whom_we_wait_for();
  }
  group_->stop(signal);
}

void NodeWorkers::say_whom_we_wait_for() {
  patience_.begin([this](std::chrono::seconds waited) {
    log::info(failure_ + "waiting " + duration_text(waited) + " for " + whom_we_wait_for());
  });
}

std::string NodeWorkers::whom_we_wait_for() const {
  if (all_ended_) return "whoever reads ddprun's output to read on";
  return name_processes(running()) + " to stop (" + aftermath_.signal + "); killing them after " +
         duration_text(job_.stop_grace) + " (--shutdown_timeout)";
}

void NodeWorkers::on_killing(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks;
  for (const int local_rank : local_ranks) ranks.push_back(layout_.first_rank + local_rank);
  log::warning(name_processes(ranks) + " did not stop within " + duration_text(job_.stop_grace) +
               " (--shutdown_timeout): killed");
}

void NodeWorkers::forward(int signal) {
  if (group_) group_->forward(signal);
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

void NodeWorkers::on_worker_ended(const launcher::WorkerEnd& end) {
  const int rank = layout_.first_rank + end.local_rank;
  const WorkerException told = exception_of(end);
  events_.worker_ended(layout_.round, rank, end.local_rank, end.pid, end.status, seconds(end.ran),
                       told.message);
  if (end.stopped) {
    aftermath_.stopped.push_back(rank);
  } else if (end.exec_failure) {
    happened_(event::StartFailed{Error(*end.exec_failure).in(rank_text(end.local_rank))});
  } else if (!end.status.success()) {
    aftermath_.victims.push_back({rank, end.status.text()});
    if (!failure_.empty()) return;
    failure_ = rank_text(end.local_rank) + " failed (" + end.status.text() + "); ";
    happened_(event::WorkerFailed{failure_of(end, told)});
  }
}

/// What one that failed by itself told in its error file.
WorkerException NodeWorkers::exception_of(const launcher::WorkerEnd& end) const {
  if (end.stopped || end.exec_failure || end.status.success()) return {};
  return parse_error_file(read_error_file(logs_.error_file(end.local_rank)))
      .value_or(WorkerException());
}

std::string NodeWorkers::error_file_of(int rank) const {
  const int local_rank = rank - layout_.first_rank;
  if (local_rank < 0 || local_rank >= layout_.local_size) return "";
  return read_error_file(logs_.error_file(local_rank));
}

rendezvous::Failure NodeWorkers::failure_of(const launcher::WorkerEnd& end,
                                            const WorkerException& told) {
  rendezvous::Failure failure;
  failure.rank = layout_.first_rank + end.local_rank;
  failure.wait_status = end.status.wait_status();
  failure.pid = end.pid;
  failure.seconds = seconds(end.ran);
  failure.host = host_;
  if (oom_) failure.cause = oom_->cause(end.pid, end.status.signal());
  failure.stderr_tail = output_.stderr_tail(failure.rank);
  failure.exception = told.message;
  failure.traceback = told.traceback;
  return failure;
}

void NodeWorkers::on_all_ended() {
  all_ended_ = true;
  say_whom_we_wait_for();
  if (stop_signal_ != 0)
    aftermath_.seconds = seconds(std::chrono::steady_clock::now() - stop_began_);
  for (const int local_rank : group_->killed()) {
    aftermath_.killed.push_back(layout_.first_rank + local_rank);
  }
  output_.workers_are_gone();
  output_.when_drained([this] {
    patience_.end();
    happened_(event::WorkersEnded{});
  });
}

}  // namespace ddprun::agent
