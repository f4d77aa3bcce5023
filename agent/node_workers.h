// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "agent/error_file.h"
#include "agent/events.h"
#include "agent/job_spec.h"
#include "agent/machine.h"
#include "agent/wait_reporter.h"
#include "agent/worker_env.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/oom.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/log_dir.h"
#include "launcher/output/output.h"
#include "launcher/worker_group.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// This node's workers, round after round: their environment, descriptors, output and end.
///
/// Thread: the executor's.
class NodeWorkers {
 public:
  /// `happened` hears of WorkerFailed, for the first one of a round, of StartFailed, for each that
  /// could not be executed, and of WorkersEnded, once all their output was passed on as well. The
  /// references must outlive this.
  NodeWorkers(boost::asio::any_io_executor executor, const JobSpec& job, std::string host,
              launcher::Output& output, Events& events, std::function<void(Event)> happened);

  /// Makes the place for log and error files; once, before any start. Errors: usage (--log_dir).
  Result<> open_logs();

  /// Starts the workers of a round; those of the round before have ended. `store` is where they
  /// find their store: MASTER_ADDR and MASTER_PORT. Errors: system; those started before run on,
  /// stop() ends them.
  Result<> start(const rendezvous::Layout& layout, const rendezvous::Endpoint& store);

  /// WorkersEnded follows. A second call, or SIGKILL, kills at once.
  void stop(int signal);

  /// Hands `signal` to each worker, which may do with it what it likes.
  void forward(int signal);

  /// To be called at each SIGCHLD.
  void child_changed();

  /// Global ranks whose process runs.
  std::vector<int> running() const;

  /// What became of the workers of the round before, once they have ended. Its first failure is
  /// among the victims, too: the master knows whether it is the root cause.
  const rendezvous::WorkerExits& aftermath() const { return aftermath_; }

  /// The bytes of the error file of the worker with this global rank in the latest round; empty:
  /// there is none, or it belongs to another node.
  std::string error_file_of(int rank) const;

 private:
  void begin_attempt();
  Result<> start_workers(const WorkerEnv& env);
  void watch_for_oom();
  std::array<launcher::StreamSink, 2> open_sinks(launcher::AttemptLogs& logs, int local_rank);
  void watch(int local_rank, const std::string& prefix, launcher::Child child,
             std::array<launcher::StreamSink, 2> sinks);
  std::vector<int> cpus_of(int local_rank) const;
  void tell_places() const;
  std::string rank_text(int local_rank) const;
  Result<std::string> prefix_of(int local_rank) const;
  void on_worker_ended(const launcher::WorkerEnd& end);
  void on_killing(const std::vector<int>& local_ranks) const;
  void say_whom_we_wait_for();
  std::string whom_we_wait_for() const;
  void on_all_ended();
  WorkerException exception_of(const launcher::WorkerEnd& end) const;
  rendezvous::Failure failure_of(const launcher::WorkerEnd& end, const WorkerException& told);

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  std::string host_;
  launcher::Output& output_;
  Events& events_;
  std::function<void(Event)> happened_;
  std::vector<std::string> inherited_;
  launcher::LogDir logs_;
  Fd no_input_;  // /dev/null
  std::optional<launcher::OomWatch> oom_;
  boost::asio::steady_timer oom_begins_;
  rendezvous::Layout layout_;
  std::optional<launcher::WorkerGroup> group_;
  bool all_ended_ = false;
  std::string failure_;  // of the first worker that failed in this round, in words; or empty
  bool said_omp_ = false;
  bool said_no_logs_ = false;  // in this round
  std::chrono::steady_clock::time_point stop_began_;
  int stop_signal_ = 0;  // the first one they got; 0: nobody stopped them
  rendezvous::WorkerExits aftermath_;
  WaitReporter patience_;
};

}  // namespace ddprun::agent
