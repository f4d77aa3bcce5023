// SPDX-License-Identifier: Apache-2.0
#include "agent/job_reporter.h"

#include <utility>

#include "agent/job/outcome.h"
#include "agent/job/report.h"
#include "agent/master/master.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/process/exit_status.h"

namespace ddprun::agent {

using std::chrono::steady_clock;

JobReporter::~JobReporter() {
  if (page_) log::set_listener({});
}

Result<> JobReporter::open_page(const boost::asio::any_io_executor& executor, ask::Handler ask,
                                std::string host_name) {
  if (!job_.web) return {};
  page_.emplace(executor, std::move(ask), std::move(host_name));
  const Result<std::string> url = page_->open(*job_.web);
  if (!url) return Error(url.error()).in("--web");
  log::info("page and metrics of the job: " + *url);
  const auto listen = [this](std::string_view text, bool is_over) {
    if (is_noted_) return;
    note([&](auto& history, double now) {
      is_over ? history.recovered(now, std::string(text)) : history.warned(now, std::string(text));
    });
  };
  for (const std::string& warning : job_.warnings) listen(warning, false);
  log::set_listener(listen);
  return {};
}

/// Logs a warning that the page shows as an event of another kind.
void JobReporter::warn(const std::string& text) {
  is_noted_ = true;
  log::warning(text);
  is_noted_ = false;
}

void JobReporter::note(const std::function<void(web::History&, double)>& note) {
  if (page_) page_->tell(note);
}

void JobReporter::job_started() {
  events_.job_started(job_);
  if (!job_.cannot_run) return;
  log::error(job_.cannot_run->message + "; the other nodes are notified when they join");
}

void JobReporter::stopping(std::size_t workers, int signal, bool handled) {
  const std::string count = count_text(workers, "worker");
  const std::string name = launcher::signal_name(signal);
  log::info(handled ? "stopping " + count + " (" + name + "); again to kill them at once"
                    : "killing " + count + ": " + name + " is not one of the --signals_to_handle");
  note([&](auto& history, double now) {
    history.stopping(now, (handled ? "stopping " : "killing ") + count + " (" + name + ")");
  });
}

void JobReporter::connection_changed(const std::string& sentence, bool reachable,
                                     steady_clock::duration workers_run_for) const {
  if (reachable) return log::recovery(sentence);
  const bool run_on = workers_run_for > steady_clock::duration::zero();
  log::warning(sentence + (run_on ? "; the workers run on for up to " +
                                        duration_text(workers_run_for) + " (--lease)"
                                  : ""));
}

void JobReporter::lease_over() {
  warn("lost the master at " + master_endpoint(job_).text() + ": no heartbeat for " +
       duration_text(job_.lease) +
       " (--lease): killing this node's workers; the other nodes may continue without it");
  note([](auto& history, double now) { history.changed(now, "the master is lost (--lease)"); });
}

void JobReporter::round_lost(const std::string& reason) {
  warn(reason + ": this node joins again");
  note([&](auto& history, double now) { history.changed(now, reason); });
}

void JobReporter::waiting(steady_clock::duration waited, const std::string& sentence) const {
  if (sentence.empty()) return;
  log::info("waiting " + duration_text(waited) + " for " + printable(sentence) +
            loopback_hint(job_.master_addr, sentence));
}

void JobReporter::worker_failed() {
  failed_at_ = steady_clock::now();
}

void JobReporter::failure_counted(const rendezvous::Failure& failure, int round, int restarts) {
  log::error(failure_line(failure, round));
  note([&](auto& history, double now) {
    history.failed(now, failure, failure_line(failure, round));
  });
  events_.restart(round, restarts, job_.max_restarts);
}

void JobReporter::failure_dropped(const rendezvous::Failure& failure, int round) {
  failed_at_.reset();
  const std::string text = "it costs no restart, as this node or its master was lost then: " +
                           failure_line(failure, round);
  log::error(text);
  note([&](auto& history, double now) { history.changed(now, text); });
}

void JobReporter::round_broken(const rendezvous::Broken& broken, int round) {
  if (!broken.root_cause) {
    failed_at_.reset();  // a worker that failed here did so as a consequence, and costs no restart
    log::info(printable(broken.reason));
    return note([&](auto& history, double now) { history.changed(now, broken.reason); });
  }
  const rendezvous::Failure& cause = *broken.root_cause;
  if (!failed_at_) failed_at_ = steady_clock::now();
  if (!broken.ends_job) log::error(failure_line(cause, round));  // else the report follows
  note([&](auto& history, double now) { history.failed(now, cause, failure_line(cause, round)); });
  if (cause.hung) events_.hang(round, cause.cause);
  if (!broken.ends_job) events_.restart(round, broken.restarts, job_.max_restarts);
}

void JobReporter::suspected(const std::string& suspect) {
  warn(suspect_line(suspect));
  note([&](auto& history, double now) { history.suspected(now, suspect); });
}

void JobReporter::stalled(const std::string& text, const std::string& statuses, int round) {
  warn(stall_report(text, statuses));
  note([&](auto& history, double now) { history.stalled(now, text); });
  events_.hang(round, text);
}

void JobReporter::round_started(const rendezvous::Layout& layout,
                                std::optional<steady_clock::duration> waited) {
  if (failed_at_) {
    log::info(restart_line(layout, job_.max_restarts, steady_clock::now() - *failed_at_));
  } else if (layout.round > 0) {
    log::info(regroup_line(layout, job_.min_nodes, job_.max_nodes));
  } else if (waited) {
    log::info("all " + std::to_string(layout.node_count) + " nodes joined after " +
              duration_text(*waited));
  }
  failed_at_.reset();
  note([&](auto& history, double now) { history.round_began(now, layout); });
}

void JobReporter::ended(const Outcome& outcome, const std::optional<rendezvous::Failed>& failed) {
  note([&](web::History& history, double now) {
    if (std::holds_alternative<JobSucceeded>(outcome)) {
      history.ended(now, "succeeded", "the job has succeeded", true);
    } else if (const auto* interrupted = std::get_if<Interrupted>(&outcome)) {
      const std::string signal = launcher::signal_name(interrupted->signal);
      history.ended(now, "stopped", "this node's ddprun was stopped by " + signal, false);
    } else if (const auto* error = std::get_if<Error>(&outcome)) {
      history.ended(now, "ended", error->message, false);
    } else {
      const std::string cause =
          failed ? ": " + failure_line(failed->root_cause, failed->round) : "";
      history.ended(now, "failed", "the job has failed" + cause, false);
    }
  });
}

void JobReporter::close_page(std::function<void()> done) {
  if (!page_) return done();
  page_->close(std::move(done));
}

}  // namespace ddprun::agent
