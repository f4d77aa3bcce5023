// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/job/failure_traces.h"
#include "agent/job/first_failure.h"
#include "agent/job/report.h"
#include "launcher/devices/gpu_errors.h"
#include "launcher/guardian/worker_group.h"
#include "launcher/kernel/oom.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// How a round of this node's workers ends: finds out why each of them failed, and reports the
/// first failure, as FirstFailure decides.
///
/// Thread: the executor's.
class RoundEnd {
 public:
  struct Hooks {
    /// At most once in a round, within 2 s after a worker failed.
    std::function<void(rendezvous::Failure)> first_failure;
    /// The traces of a worker that failed, or was stopped, have been read.
    std::function<void(const launcher::WorkerEnd&, const std::string& exception)> examined;
    /// is_known() may have become true.
    std::function<void()> settled;
  };

  RoundEnd(boost::asio::any_io_executor executor, std::string host_name, Hooks hooks);

  /// Another round begins.
  void clear(const rendezvous::Layout& layout);

  /// The workers run: from now on asks the kernel what it did to them, or to their `gpus`.
  void watch(bool gpus);

  /// A worker failed, or was stopped. `cause`: why, if this process ended it; may be empty.
  void ended(const launcher::WorkerEnd& end, TracePlaces places, std::string cause);

  /// A worker ended with exit code 0.
  void succeeded(int rank) { succeeded_.push_back({rank, std::chrono::steady_clock::now()}); }

  /// The places of the workers that succeeded: how long before the first failure, the stop, or now,
  /// they ended.
  std::vector<rendezvous::WorkerPlace> ended_places() const;

  /// A worker could not be started.
  void not_started(int local_rank);

  /// This node stops its workers with `signal`. Failures stop waiting for a cause: it has come from
  /// another node. A second call changes nothing else.
  void stop(int signal);
  bool is_stopping() const { return stop_signal_ != 0; }

  /// The places of the sampled workers before the stop.
  void set_places(std::vector<rendezvous::WorkerPlace> places,
                  std::vector<rendezvous::CallPlace> calls);

  /// No process of the workers is left; `killed` needed SIGKILL (local ranks).
  void all_ended(const std::vector<int>& killed);

  bool have_all_ended() const { return all_ended_; }

  /// Whether all have ended, and all their traces are known.
  bool is_known() const;

  /// Complete once is_known(). `failed` includes the first one.
  rendezvous::WorkerExits exits() const;

  /// stop_line() of the stopped workers.
  std::string stop_line() const;

  /// "rank 3 failed (exit 1); "; empty: no failure was reported.
  const std::string& first_failure() const { return first_failure_; }

 private:
  struct Succeeded {
    int rank;
    std::chrono::steady_clock::time_point when;
  };

  void on_traces(const launcher::WorkerEnd& end, std::optional<std::size_t> number,
                 const std::string& cause, const Traces& traces);
  void note_consequence(const rendezvous::Failure& failure);
  void note_wait(const rendezvous::Failure& failure,
                 const std::vector<launcher::WorkerCall>& calls);
  void settle(std::optional<rendezvous::Failure> first);
  void wait_for_cause();
  void tell_first(rendezvous::Failure failure);
  rendezvous::Failure failure_of(const launcher::WorkerEnd& end, const Traces& traces) const;

  boost::asio::any_io_executor executor_;
  const std::string host_name_;
  const Hooks hooks_;
  TraceReader traces_;
  std::optional<launcher::OomWatch> oom_;
  std::optional<launcher::GpuErrorWatch> gpu_errors_;  // nullopt: there are no GPUs
  boost::asio::steady_timer oom_begins_;

  // The latest round.
  rendezvous::Layout layout_;
  bool all_ended_ = false;
  int under_examination_ = 0;  // workers that failed, or were stopped
  std::vector<Succeeded> succeeded_;
  FirstFailure failures_;
  std::optional<boost::asio::steady_timer> cause_limit_;  // set while waits_for_cause()
  std::string first_failure_;
  int stop_signal_ = 0;  // the first one; 0: none
  std::vector<StoppedWorker> stopped_;
  std::optional<std::chrono::steady_clock::time_point> failed_;  // the first that did, here
  std::chrono::steady_clock::time_point stop_began_;
  std::timespec stop_dated_{};  // the same by coarse_time()
  rendezvous::WorkerExits exits_;
};

}  // namespace ddprun::agent
