// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/ask/log_piece.h"
#include "agent/ask/status.h"
#include "agent/diagnosis/abort_stacks.h"
#include "agent/job/events.h"
#include "agent/job/failure_traces.h"
#include "agent/job/job_spec.h"
#include "agent/job/machine.h"
#include "agent/mpi/mpi_hint.h"
#include "agent/mpi/mpi_round.h"
#include "agent/progress/progress_monitor.h"
#include "agent/round_end.h"
#include "agent/stack_collector.h"
#include "agent/worker/file_timers.h"
#include "agent/worker/flight_recorder.h"
#include "agent/worker/preload.h"
#include "agent/worker/worker_setup.h"
#include "agent/worker/worker_watch.h"
#include "base/error.h"
#include "base/wait_reporter.h"
#include "launcher/guardian/worker_group.h"
#include "launcher/kernel/descendants.h"
#include "launcher/output/output.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// This node's workers, round after round: starts them as WorkerSetup prepares them, stops them,
/// and reports how they ended.
///
/// Thread: the executor's.
class NodeWorkers {
 public:
  /// `handle_event` gets WorkerFailed for the first worker that fails in a round, as FirstFailure
  /// decides within 2 s, StartFailed for each that could not be executed, and WorkersEnded once all
  /// have ended and their output is written. The references must outlive this. If some workers have
  /// succeeded and others run on, a warning follows after `uneven_end`; tests use other values.
  NodeWorkers(boost::asio::any_io_executor executor, const JobSpec& job, std::string host_name,
              launcher::Output& output, Events& events, std::function<void(Event)> handle_event,
              std::chrono::seconds uneven_end = std::chrono::seconds(30));

  /// Makes the directory for log and error files, and the pipe of FileTimers, and starts the import
  /// of --preload. Call it once, before any round, as it may block. Errors: usage (--log_dir).
  Result<> open_files();

  /// "importing torch", while the workers of a round wait for --preload; else empty.
  std::string importing() const { return preload_.is_waited_for() ? preload_.importing() : ""; }

  /// Starts the workers of a round; those of the last round have ended. If the disk has to create
  /// log files first, the workers start later. `store` becomes their MASTER_ADDR and MASTER_PORT.
  /// After an error (system, usage) StartFailed follows. Workers that were started before it run
  /// until stop().
  void start(const rendezvous::Layout& layout, const rendezvous::Endpoint& store);

  /// Calls `changed` when the workers have stopped making progress, and when some make it again.
  void when_progress_changes(std::function<void(rendezvous::NodeProgress)> changed) {
    progress_changed_ = std::move(changed);
  }

  /// The workers' latest reports of progress: "rank 0: step 12"; empty: none.
  std::string statuses() const { return progress_.statuses(); }

  /// Stops the workers as WorkerGroup::stop does. WorkersEnded follows. A second call, or SIGKILL,
  /// kills at once.
  void stop(int signal, bool to_whole_groups = false);

  /// Like stop(), but first samples the workers' places for exits(), after a failure that looks
  /// like a consequence. Takes a millisecond; a stop() in this time acts at once.
  void look_and_stop(int signal);

  /// Like stop(), for a round that hangs: workers whose stacks could not be read, and which catch
  /// SIGABRT, get it and a second to print their stacks.
  void abort_and_stop(int signal);

  /// Sends SIGINT to the processes of one worker, and changes nothing else. Returns false if it
  /// does not run here.
  bool interrupt(int rank);

  /// The user's terminal may have another size.
  void window_changed();

  /// Call it at each SIGCHLD.
  void child_changed();

  /// Calls StackCollector::collect for the running workers.
  void collect_stacks(bool native, StackCollector::Done done) {
    progress_.begin_stops();
    stacks_.collect(processes(), native,
                    [this, done = std::move(done)](const CollectedStacks& collected) {
                      progress_.end_stops();
                      done(collected);
                    });
  }

  /// Pids and ranks of running workers.
  std::vector<WorkerWatch::Process> processes() const;

  /// Global ranks whose process runs.
  std::vector<int> running() const;

  /// The started workers of the latest round, as this process knows them without samples.
  std::vector<ask::RankStatus> ranks() const;

  /// The output of a worker of the latest round, after its first `from` bytes; nullopt: another
  /// node has the worker.
  std::optional<ask::LogPiece> log(int rank, std::uint64_t from) const;

  /// How the workers of the latest round ended, once all have. `failed` includes the first that
  /// failed: the master knows whether it is the root cause.
  rendezvous::WorkerExits exits() const { return round_end_.exits(); }

  /// How the stopped workers of the latest round ended, as RoundEnd::stop_line.
  std::string stop_line() const { return round_end_.stop_line(); }

  /// The path of the error file of the worker with this global rank in the latest round; empty:
  /// there is none, or it belongs to another node.
  std::string error_file_of(int rank) const;

 private:
  /// A worker that was started.
  struct Started {
    ask::RankStatus status;
    std::chrono::steady_clock::time_point when;
  };

  RoundEnd::Hooks round_end_hooks();
  launcher::WorkerGroup::Hooks group_hooks();
  using Workers = std::vector<WorkerSetup::Worker>;
  void start_workers(Result<Workers> workers, const rendezvous::Endpoint& store);
  void fork_workers(Workers workers, std::vector<launcher::Command> commands);
  void on_started(Workers workers, launcher::Forked started);
  void on_import_failed(rendezvous::Failure failure);
  void start_mpi(const rendezvous::Endpoint& store, std::function<void(Result<>)> ready);
  void launch_workers(Workers workers);
  void on_start_failed(const Error& error);
  void on_mpi_failed(const std::string& cause);
  void add_output(int local_rank, WorkerSetup::Worker worker, launcher::Child child);
  std::vector<std::string> more_variables();
  void watch_progress();
  void on_progress_changed(HangWatch::News news, std::chrono::duration<double> time);
  void on_hang_seen(std::chrono::duration<double> time, const CollectedStacks& seen);
  bool is_about_to_fail(int rank);
  void on_worker_ended(launcher::WorkerEnd end);
  void on_mpi_known(const launcher::WorkerEnd& end);
  void on_survived(const launcher::WorkerEnd& end);
  void take_end(launcher::WorkerEnd end);
  void on_success(int rank);
  void on_killed(const std::vector<int>& local_ranks,
                 const std::vector<launcher::Descendant>& processes);
  void on_held();
  void on_stopping_orphans(const std::vector<launcher::Descendant>& orphans);
  void on_all_ended();
  void finish_when_known();
  void end_watches();
  TracePlaces trace_places(const launcher::WorkerEnd& end) const;
  void report_waiting();
  void end_waiting(std::string_view news);
  std::string waiting_for() const;
  void note_end(const launcher::WorkerEnd& end);
  void record_end(const launcher::WorkerEnd& end, const std::string& exception);

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  const std::string host_name_;
  launcher::Output& output_;
  Events& events_;
  std::function<void(Event)> handle_event_;
  WorkerSetup setup_;
  WaitReporter wait_reporter_;
  WaitReporter uneven_end_;
  WorkerWatch watch_;
  StackCollector stacks_;
  ProgressMonitor progress_;
  FileTimers timers_;
  Preload preload_;
  MpiHint mpi_hint_;
  FlightRecorder recorder_;
  std::function<void(rendezvous::NodeProgress)> progress_changed_;
  HangWatch::News progress_news_ = HangWatch::News::none;  // the last
  AbortStacks aborts_;
  RoundEnd round_end_;

  // The latest round.
  rendezvous::Layout layout_;
  std::optional<launcher::WorkerGroup> group_;
  std::optional<MpiRound> mpi_;   // nullopt: the ranks are not connected by MPI
  std::vector<Started> started_;  // by local rank
  std::vector<int> succeeded_;
  std::string survived_;  // the ranks that the others have survived, and how they ended
  std::function<void()> after_forking_;  // nullptr: nothing waits for the end of forking
};

}  // namespace ddprun::agent
