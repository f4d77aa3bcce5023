// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "agent/job_spec.h"
#include "rendezvous/layout.h"
#include "rendezvous/round.h"

namespace ddprun::agent {

/// The lines of this agent on the console while a job runs. The sentences that need no state are
/// in agent/report.h.
class ConsoleReport {
 public:
  /// `job` must outlive it.
  explicit ConsoleReport(const JobSpec& job) : job_(job) {}

  /// `handled`: the signal is one of --signals_to_handle.
  void stopping(std::size_t workers, int signal, bool handled) const;

  /// `sentence` says what happened to the connection to the master; `workers_run_for` is how long
  /// workers run on without it. Zero or less: none do.
  void connection_changed(const std::string& sentence,
                          std::chrono::steady_clock::duration workers_run_for) const;
  void lease_over() const;
  void round_lost(const std::string& reason) const;

  /// `sentence` follows "waiting 5 s for"; nothing is written when it is empty.
  void waiting(std::chrono::steady_clock::duration waited, const std::string& sentence) const;

  /// A worker of this node failed; the report comes from the master.
  void worker_failed();
  void round_broken(const rendezvous::Broken& broken, int round);

  /// The workers of `layout` run. `waited` for it; nullopt: too short a time to mention.
  void round_started(const rendezvous::Layout& layout,
                     std::optional<std::chrono::steady_clock::duration> waited);

 private:
  const JobSpec& job_;
  std::optional<std::chrono::steady_clock::time_point> failed_at_;  // the round before this one
};

}  // namespace ddprun::agent
