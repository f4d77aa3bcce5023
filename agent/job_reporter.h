// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "agent/ask/routes.h"
#include "agent/job/events.h"
#include "agent/job/job_spec.h"
#include "agent/job/outcome.h"
#include "agent/web/site.h"
#include "base/error.h"
#include "rendezvous/layout.h"
#include "rendezvous/round/round.h"

namespace ddprun::agent {

/// Reports what happens to the job wherever the user may look: on the console, in the file of
/// events and on the page of --web. The sentences that need no state are in agent/job/report.h.
/// An argument `round` is the round of this node.
///
/// Thread: the one of the executor that it is opened with.
class JobReporter {
 public:
  /// The references must outlive it.
  JobReporter(const JobSpec& job, Events& events) : job_(job), events_(events) {}
  ~JobReporter();
  JobReporter(const JobReporter&) = delete;

  /// Opens the page, if the job is to have one; before the first lease, so that a port which is
  /// taken is an error of the command line. From then on the page also has what log::warning()
  /// says. `ask` answers what the page asks. Errors: as Site::open.
  Result<> open_page(const boost::asio::any_io_executor& executor, ask::Handler ask,
                     std::string host_name);

  void job_started();

  /// ddprun itself got `signal`.
  void signal_received(int signal) { events_.signal_received(signal); }

  /// That signal stops the workers. `handled`: it is one of --signals_to_handle.
  void stopping(std::size_t workers, int signal, bool handled);

  /// `sentence` says what happened to the connection to the master, which is `reachable` now or
  /// not; `workers_run_for` is how long workers run on without it. Zero or less: none do.
  void connection_changed(const std::string& sentence, bool reachable,
                          std::chrono::steady_clock::duration workers_run_for) const;

  /// This node's workers are killed, as its lease is over.
  void lease_over();

  /// The round of this node goes on without it, or does not go on.
  void round_lost(const std::string& reason);

  /// `sentence` follows "waiting 5 s for"; nothing is written when it is empty.
  void waiting(std::chrono::steady_clock::duration waited, const std::string& sentence) const;

  /// A worker of this node failed; the report comes from the master.
  void worker_failed();

  /// The failure was counted by a master that has ended since, and `restarts` with it.
  void failure_counted(const rendezvous::Failure& failure, int round, int restarts);

  /// No master has counted the failure, and none will.
  void failure_dropped(const rendezvous::Failure& failure, int round);

  void round_broken(const rendezvous::Broken& broken, int round);

  /// Rendezvous' sentence on the ranks that the first one to fail waited for in the last round.
  void suspected(const std::string& suspect);

  /// As stall_report().
  void stalled(const std::string& text, const std::string& statuses, int round);

  /// The workers of `layout` run. `waited` for it; nullopt: too short a time to mention.
  void round_started(const rendezvous::Layout& layout,
                     std::optional<std::chrono::steady_clock::duration> waited);

  /// This node's part is over. `failed`: how, of a job that failed.
  void ended(const Outcome& outcome, const std::optional<rendezvous::Failed>& failed);

  /// Calls `done` when those who look at the page know the end, or take too long.
  void close_page(std::function<void()> done);

 private:
  void warn(const std::string& text);
  void note(const std::function<void(web::History& history, double now)>& note);

  const JobSpec& job_;
  Events& events_;
  std::optional<web::Site> page_;                                   // --web
  bool is_noted_ = false;                                           // what is being logged
  std::optional<std::chrono::steady_clock::time_point> failed_at_;  // the round before this one
};

}  // namespace ddprun::agent
