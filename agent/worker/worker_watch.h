// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/worker/flight_recorder.h"
#include "base/async_jobs.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// Looks at this node's workers while they run, on a thread and only when asked.
///
/// Destroying it drops all pending work. Thread: the executor's.
class WorkerWatch {
 public:
  using Process = WorkerProcess;
  /// The processes' places, as their node sees them.
  struct Observation {
    std::vector<rendezvous::WorkerPlace> places{};
    std::vector<rendezvous::CallPlace> calls{};
  };

  /// Looks for py-spy beside `program`, too.
  WorkerWatch(boost::asio::any_io_executor executor, std::string program, std::string host_name)
      : executor_(executor),
        jobs_(executor),
        program_(std::move(program)),
        host_name_(std::move(host_name)) {}

  /// Calls `done` with the places of `processes`: usually within a millisecond, or within 2 s with
  /// Python's stacks. If the kernel does not answer in time, `done` gets nothing.
  void look(std::vector<Process> processes, std::function<void(Observation)> done);

  /// `signal` has stopped `process`: reports it if the process is still stopped a second later, and
  /// not by a debugger.
  void stopped(const Process& process, int signal);

  /// The process continued: reports it if its stop was reported.
  void continued(const Process& process);

  /// Drops the calls until now: the round's workers are to end.
  void cancel() {
    round_ = std::make_shared<char>();
    stops_.clear();
  }

 private:
  struct Stop {
    std::chrono::steady_clock::time_point began;
    bool said = false;
  };

  void report_stop(const Process& process, int signal);
  std::string process_text(const Process& process) const;

  boost::asio::any_io_executor executor_;
  AsyncJobs jobs_;
  const std::string program_;
  const std::string host_name_;
  std::shared_ptr<char> round_ = std::make_shared<char>();
  std::map<pid_t, Stop> stops_;  ///< of processes that have not continued
};

}  // namespace ddprun::agent
