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

#include "base/async_jobs.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// Looks at this node's workers while they run, on a thread and only when asked.
///
/// Destroying it drops what is still to come. Thread: the executor's.
class WorkerWatch {
 public:
  struct Process {
    int rank;  ///< global
    pid_t pid;
  };
  /// Where they are, as their node knows.
  struct Seen {
    std::vector<rendezvous::WorkerPlace> places{};
    std::vector<rendezvous::CallPlace> calls{};
  };

  /// py-spy is looked for beside `program`, too.
  WorkerWatch(boost::asio::any_io_executor executor, std::string program, std::string host_name)
      : executor_(executor),
        jobs_(executor),
        program_(std::move(program)),
        host_name_(std::move(host_name)) {}

  /// Calls `done` with where `processes` are: usually within a millisecond, with the stacks of
  /// Python within 50 ms, and with nothing if the kernel does not say in time.
  void look(std::vector<Process> processes, std::function<void(Seen)> done);

  /// `signal` has stopped `process`: says so if it is still stopped a second later, and not by a
  /// debugger.
  void stopped(Process process, int signal);

  /// It goes on: says so if its stop was said.
  void continued(Process process);

  /// Nothing follows for the calls until now: the round's workers are to end.
  void cancel() {
    round_ = std::make_shared<char>();
    stops_.clear();
  }

 private:
  struct Stop {
    std::chrono::steady_clock::time_point began;
    bool said = false;
  };

  void report_stop(Process process, int signal);
  std::string process_text(const Process& process) const;

  boost::asio::any_io_executor executor_;
  AsyncJobs jobs_;
  const std::string program_;
  const std::string host_name_;
  std::shared_ptr<char> round_ = std::make_shared<char>();
  std::map<pid_t, Stop> stops_;  ///< of those that have not gone on
};

}  // namespace ddprun::agent
