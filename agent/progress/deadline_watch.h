// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/system_timer.hpp>

#include "agent/job/job_spec.h"
#include "agent/worker/worker_watch.h"
#include "base/async_jobs.h"
#include "base/error.h"

namespace ddprun::agent {

/// Signals this node's workers some time before the scheduler ends the job (JobSpec::deadline).
/// Each worker that catches the signal gets it once, even if it begins or sets up a handler later.
/// On a thread, reads /proc, and asks the scheduler for the end if it is not known.
///
/// Destroying it drops all pending work. Thread: the executor's.
class DeadlineWatch {
 public:
  /// This node's part of a round.
  struct NodeProcesses {
    int node_rank = 0;
    std::vector<WorkerWatch::Process> workers;  ///< the running ones
  };

  /// `job` must outlive it; `node` is called from the executor.
  DeadlineWatch(const boost::asio::any_io_executor& executor, const JobSpec& job,
                std::function<NodeProcesses()> node)
      : job_(job),
        processes_of_node_(std::move(node)),
        ask_soon_(executor),
        due_(executor),
        jobs_(executor) {}

  /// Call it once. Does nothing if the job has no deadline.
  void begin();

 private:
  void ask_after(std::chrono::milliseconds pause);
  void ask();
  void on_answer(const Result<std::string>& answer);
  void wait_until_due(std::chrono::sys_seconds end);
  void look();
  void on_signalled(const NodeProcesses& node, const std::vector<pid_t>& signalled);
  void look_again();

  const JobSpec& job_;
  std::function<NodeProcesses()> processes_of_node_;
  boost::asio::steady_timer ask_soon_;
  boost::asio::system_timer due_;
  std::chrono::system_clock::time_point end_;
  std::chrono::seconds pause_{1};
  int asked_ = 0;  // times
  std::set<pid_t> signalled_;
  bool said_ = false;
  AsyncJobs jobs_;
};

/// Seconds since 1970, as a scheduler's command prints them; nullopt: the job has no end.
std::optional<std::chrono::sys_seconds> parse_end(const std::string& text);

/// The console's line when `signalled` of `workers` workers of a node got the signal, `left` before
/// the end.
std::string deadline_line(const Deadline& deadline, std::chrono::seconds left,
                          std::size_t signalled, std::size_t workers);

}  // namespace ddprun::agent
