// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/job/job_spec.h"
#include "agent/worker/worker_env.h"
#include "base/async_jobs.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/output/attempt_logs.h"
#include "launcher/output/log_dir.h"
#include "launcher/output/output.h"
#include "launcher/process/spawn.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::agent {

/// Prepares the workers of this node for each round: command, environment, standard streams, log
/// files and CPUs. Logs remarks for the user.
///
/// Thread: the executor's.
class WorkerSetup {
 public:
  struct Worker {
    launcher::Command command;  ///< its descriptors belong to the setup and to `sinks`
    std::string prefix;         ///< of its lines on the console
    std::array<launcher::StreamSink, 2> sinks;  ///< of stdout and stderr
    bool alone = false;                         ///< no other worker writes to the console
  };
  /// The workers of the round, by local rank. Errors: system, usage (--prefix).
  using Prepared = std::function<void(Result<std::vector<Worker>>)>;

  /// `job` must outlive it.
  WorkerSetup(boost::asio::any_io_executor executor, const JobSpec& job, std::string host_name);

  /// Makes the directory for log and error files. Call it once, before any round, as it may block.
  /// Errors: usage (--log_dir).
  Result<> open_logs();

  /// Prepares a round; the last round's files are no longer used. `store` becomes MASTER_ADDR and
  /// MASTER_PORT. Each worker's environment also gets `more`, in place of variables of the same
  /// names. Calls `prepared`: at once if no log files are needed, else later, because creating them
  /// may take long.
  void prepare(const rendezvous::Layout& layout, const rendezvous::Endpoint& store,
               std::vector<std::string> more, Prepared prepared);

  /// ddprun's own environment, "NAME=value".
  const std::vector<std::string>& inherited() const { return inherited_; }

  /// The folder of log and error files, else $TMPDIR or /tmp.
  std::string log_folder() const;

  /// Whether `prepared` is still to be called.
  bool is_preparing() const { return preparing_ != nullptr; }

  /// Drops a pending call of `prepared`.
  void cancel() { preparing_.reset(); }

  /// The file of the worker in the latest round; empty: none.
  std::string error_file(int local_rank) const { return files_.error_file(local_rank); }

  /// The files that alone get the worker's streams in the latest round.
  std::vector<std::string> redirected_to(int local_rank) const;

  /// The folder of the worker's log files in the latest round; empty: it has none.
  std::string log_folder_of(int local_rank) const;

 private:
  void on_opened(launcher::AttemptSinks opened, const rendezvous::Endpoint& store,
                 const Prepared& prepared);
  Result<std::vector<Worker>> workers(
      const rendezvous::Endpoint& store,
      std::vector<std::array<launcher::StreamSink, 2>> sinks_of_workers);
  Result<Worker> worker(int local_rank, const WorkerEnv& env,
                        std::array<launcher::StreamSink, 2> sinks);
  Result<std::string> prefix_of(int local_rank) const;
  bool is_debugged_here() const;
  bool is_alone(int local_rank) const;
  bool reads_input(int local_rank) const;
  std::vector<int> cpus_of(int local_rank) const;
  void report_omp_limit(const WorkerEnv& env);
  void report_bindings() const;

  const JobSpec& job_;
  const std::string host_name_;
  const std::vector<std::string> inherited_;             // environment
  const std::shared_ptr<const launcher::LogSpec> spec_;  // the thread that opens files uses it
  launcher::LogDir logs_;
  AsyncJobs disk_;
  std::shared_ptr<char> preparing_;  // nullptr: no call is pending
  launcher::AttemptFiles files_;     // of the latest round
  Fd no_input_;                      // /dev/null
  rendezvous::Layout layout_;
  std::vector<std::string> more_variables_;
  bool omp_limit_reported_ = false;
};

// A worker's stdout and stderr are pipes or pseudo-terminals (--tty).

/// Whether the worker's output may be shown byte for byte. Not if ddprun's lines are relayed: a
/// marked line must begin a line.
bool is_shown_as_it_is(const WorkerSetup::Worker& worker);

/// Moves the worker's command out of `worker`, with the windows of its pseudo-terminals. `output`
/// has ddprun's own terminal.
launcher::Command take_command(WorkerSetup::Worker& worker, Tty tty,
                               const launcher::Output& output);

/// Logs a warning if one of these lacks a pseudo-terminal that it should have.
void report_missing_terminals(const std::vector<launcher::Child>& children);

}  // namespace ddprun::agent
