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

/// Reports the events of the job wherever the user may look: on the console, in the file of events
/// and on the page of --web. Sentences that need no state are in agent/job/report.h. An argument
/// `round` is the round of this node.
///
/// Thread: that of the executor of open_page().
class JobReporter {
 public:
  /// The references must outlive it.
  JobReporter(const JobSpec& job, Events& events) : job_(job), events_(events) {}
  ~JobReporter();
  JobReporter(const JobReporter&) = delete;

  /// Opens the page, if the user wants one. Call it before the first lease, so that a taken port is
  /// an error of the command line. From then on the page also shows warnings. `ask` answers the
  /// page's questions. Errors: as Site::open.
  Result<> open_page(const boost::asio::any_io_executor& executor, ask::Handler ask,
                     std::string host_name);

  void job_started();

  /// ddprun itself got `signal`.
  void signal_received(int signal) { events_.signal_received(signal); }

  /// `signal` stops the workers. `handled`: it is one of --signals_to_handle.
  void stopping(std::size_t workers, int signal, bool handled);

  /// `sentence` says what happened to the connection. `reachable`: the master is, now.
  /// `workers_run_for`: how long workers run on without it; zero or less: none do.
  void connection_changed(const std::string& sentence, bool reachable,
                          std::chrono::steady_clock::duration workers_run_for) const;

  /// This node's lease is over, so its workers are killed.
  void lease_over();

  /// The round of this node continues without it, or does not continue.
  void round_lost(const std::string& reason);

  /// `sentence` follows "waiting 5 s for"; if it is empty, writes nothing.
  void waiting(std::chrono::steady_clock::duration waited, const std::string& sentence) const;

  /// A worker of this node failed; the report comes from the master.
  void worker_failed();

  /// Another master than the round's has counted the failure: `restarts` includes it.
  void failure_counted(const rendezvous::Failure& failure, int round, int restarts);

  /// No master has counted the failure, and none will.
  void failure_dropped(const rendezvous::Failure& failure, int round);

  void round_broken(const rendezvous::Broken& broken, int round);

  /// The rendezvous' sentence about the ranks for which the first failed rank waited.
  void suspected(const std::string& suspect);

  /// No rank makes progress, or some do again. The texts are those of stall_report().
  void stalled(const std::string& text, const std::string& statuses, int round);

  /// The workers of `layout` run. `waited`: the wait before; nullopt: too short to mention.
  void round_started(const rendezvous::Layout& layout,
                     std::optional<std::chrono::steady_clock::duration> waited);

  /// This node's part is over. `failed`: how the job failed, if it did.
  void ended(const Outcome& outcome, const std::optional<rendezvous::Failed>& failed);

  /// Calls `done` when the page's viewers have the end, or take too long.
  void close_page(std::function<void()> done);

 private:
  void warn(const std::string& text);
  void note(const std::function<void(web::History& history, double now)>& note);

  const JobSpec& job_;
  Events& events_;
  std::optional<web::Site> page_;                                   // --web
  bool is_noted_ = false;                                           // the present warning
  std::optional<std::chrono::steady_clock::time_point> failed_at_;  // the last round, if it failed
};

}  // namespace ddprun::agent
