// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <utility>

#include "agent/job/report.h"
#include "agent/node_workers.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/guardian/survivors.h"
#include "launcher/kernel/descendants.h"

// How a round of NodeWorkers ends: each worker, then all of their processes.

namespace ddprun::agent {
namespace {

using Seconds = std::chrono::duration<double>;

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

}  // namespace

void NodeWorkers::on_worker_ended(launcher::WorkerEnd end) {
  end.stopped = end.stopped || aborts_.is_printing(end.pid);
  note_end(end);
  if (!round_end_.is_stopping()) end_waiting("its tracer has let the worker go");
  timers_.worker_ended(end.pid);
  if (mpi_ && !end.stopped && !end.exec_failure) {
    mpi_->ended(end.local_rank, [this, end] { on_mpi_known(end); });
  } else {
    take_end(end);
  }
  if (mpi_ && running().empty()) mpi_->finish();
  aborts_.ended(end.pid);  // last: it may call stop(), and so end the round
}

void NodeWorkers::note_end(const launcher::WorkerEnd& end) {
  const auto local_rank = static_cast<size_t>(end.local_rank);
  if (local_rank >= started_.size()) return;
  ask::RankStatus& rank = started_[local_rank].status;
  const bool succeeded = !end.exec_failure && end.status.success();
  rank.state = succeeded || end.stopped ? "ended" : "failed";
  rank.how = end.exec_failure ? "could not be started" : end.status.text();
  rank.seconds = Seconds(end.ran).count();
  if (job_.log_level == log::Level::debug) {
    log::debug(ranks_text({rank.rank}) + " has ended after " + duration_text(end.ran) + ": " +
               rank.how);
  }
}

/// A round that stops has no use for survivors.
void NodeWorkers::on_mpi_known(const launcher::WorkerEnd& end) {
  const bool is_lost = job_.mpi_ft && is_survivable(mpi_->of(end.local_rank));
  if (!is_lost || layout_.world_size == 1 || round_end_.is_stopping()) return take_end(end);
  mpi_->lost(end.local_rank, [this, end](bool others) {
    others && !round_end_.is_stopping() ? on_survived(end) : take_end(end);
  });
}

void NodeWorkers::on_survived(const launcher::WorkerEnd& end) {
  const std::string rank = ranks_text({layout_.first_rank + end.local_rank});
  const std::string how = end.status.success() ? "ended without MPI_Finalize" : end.status.text();
  survived_.append(survived_.empty() ? "" : ", ").append(rank + " (" + how + ")");
  record_end(end, "");
  log::warning(rank + " (pid " + std::to_string(end.pid) + ") is lost: " + how +
               "; the others continue without it (--mpi_ft)");
}

void NodeWorkers::take_end(launcher::WorkerEnd end) {
  std::string cause = timers_.cause(end.pid);
  const auto failure = mpi_ && !end.stopped
                           ? mpi_failure(mpi_->of(end.local_rank), end.status, layout_.world_size)
                           : std::nullopt;
  if (failure) std::tie(end.status, cause) = std::tie(failure->status, failure->cause);
  if (!survived_.empty()) {
    cause.append(cause.empty() ? "" : ", ").append("after the loss of " + survived_);
  }
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
                       end.status, Seconds(end.ran).count(), exception);
}

TracePlaces NodeWorkers::trace_places(const launcher::WorkerEnd& end) const {
  return {setup_.error_file(end.local_rank), setup_.redirected_to(end.local_rank),
          setup_.log_folder_of(end.local_rank),
          recorder_.file_of(layout_.first_rank + end.local_rank),
          output_.stderr_end(layout_.first_rank + end.local_rank)};
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
  failure.seconds = Seconds(std::chrono::steady_clock::now() - started.when).count();
  failure.host = host_name_;
  failure.cause = cause;
  handle_event_(event::WorkerFailed{std::move(failure)});
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

}  // namespace ddprun::agent
