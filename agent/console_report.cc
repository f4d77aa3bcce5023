// SPDX-License-Identifier: Apache-2.0
#include "agent/console_report.h"

#include "agent/master.h"
#include "agent/report.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/exit_status.h"

namespace ddprun::agent {

using std::chrono::steady_clock;

void ConsoleReport::stopping(std::size_t workers, int signal, bool handled) const {
  const std::string count = count_text(workers, "worker");
  const std::string name = launcher::signal_name(signal);
  log::info(handled ? "stopping " + count + " (" + name + "); again to kill them at once"
                    : "killing " + count + ": " + name + " is not one of the --signals_to_handle");
}

void ConsoleReport::connection_changed(const std::string& sentence,
                                       steady_clock::duration workers_run_for) const {
  const bool run_on = workers_run_for > steady_clock::duration::zero();
  log::warning(sentence + (run_on ? "; the workers run on for up to " +
                                        duration_text(workers_run_for) + " (--lease)"
                                  : ""));
}

void ConsoleReport::lease_over() const {
  log::warning("lost the master at " + master_endpoint(job_).text() + ": no heartbeat for " +
               duration_text(job_.lease) +
               " (--lease): killing this node's workers; the other nodes may go on without it");
}

void ConsoleReport::round_lost(const std::string& reason) const {
  log::warning(reason + ": this node joins again");
}

void ConsoleReport::waiting(steady_clock::duration waited, const std::string& sentence) const {
  if (sentence.empty()) return;
  log::info("waiting " + duration_text(waited) + " for " + printable(sentence));
}

void ConsoleReport::worker_failed() {
  failed_at_ = steady_clock::now();
}

void ConsoleReport::round_broken(const rendezvous::Broken& broken, int round) {
  if (!broken.root_cause) {
    failed_at_.reset();  // what failed here was a victim, and costs no restart
    return log::info(printable(broken.reason));
  }
  if (!failed_at_) failed_at_ = steady_clock::now();
  if (broken.ends_job) return;  // the report follows
  log::error(failure_line(*broken.root_cause, round));
}

void ConsoleReport::round_started(const rendezvous::Layout& layout,
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
}

}  // namespace ddprun::agent
