// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "agent/job/report.h"
#include "agent/node_workers.h"
#include "agent/worker/worker_command.h"
#include "agent/worker/worker_env.h"
#include "base/log.h"
#include "base/text.h"

// How a round of NodeWorkers begins.

namespace ddprun::agent {
namespace {

constexpr std::string_view kFaultHandler = "PYTHONFAULTHANDLER";

}  // namespace

void NodeWorkers::start(const rendezvous::Layout& layout, const rendezvous::Endpoint& store) {
  layout_ = layout;
  round_end_.clear(layout_);
  succeeded_.clear();
  survived_.clear();
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

void NodeWorkers::start_mpi(const rendezvous::Endpoint& store,
                            std::function<void(Result<>)> ready) {
  if (job_.mpi == Mpi::none) return ready({});
  mpi_.emplace(
      executor_, job_, layout_,
      MpiRound::Hooks{.failed = [this](const std::string& cause) { on_mpi_failed(cause); },
                      .overdue = [this](int local_rank) { group_->signal(local_rank, SIGKILL); }});
  mpi_->start(store, std::move(ready));
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

}  // namespace ddprun::agent
