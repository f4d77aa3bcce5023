// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/diagnosis/process_stack.h"
#include "agent/diagnosis/stacks.h"
#include "agent/worker/worker_watch.h"
#include "base/async_jobs.h"
#include "launcher/process/worker_calls.h"

namespace ddprun::agent {

/// The stacks of this node's workers, all at one moment.
struct CollectedStacks {
  Stacks stacks;                                           ///< to show, and for other nodes
  std::map<int, ProcessStack> of_rank;                     ///< by global rank
  std::map<int, std::vector<launcher::WorkerCall>> calls;  ///< likewise
};

/// Collects stacks in a helper process (agent/diagnosis/stack_helper), for which a thread waits;
/// only when asked.
///
/// Destroying it drops pending calls. Thread: the executor's.
class StackCollector {
 public:
  using Process = WorkerWatch::Process;
  using Done = std::function<void(const CollectedStacks&)>;

  /// Looks for py-spy beside `program`, too.
  StackCollector(boost::asio::any_io_executor executor, std::string program, std::string host)
      : jobs_(executor), program_(std::move(program)), host_(std::move(host)) {}

  /// Calls `done` once, later, with the stacks of `processes`: within about kStacksLimit. `native`:
  /// also the calls of C and C++ below Python's, for which a process stands still for some
  /// milliseconds; processes without Python always have theirs. A call while one with the same
  /// `native` is pending gets its result.
  void collect(const std::vector<Process>& processes, bool native, Done done);

 private:
  AsyncJobs jobs_;
  const std::string program_;
  const std::string host_;
  std::map<bool, std::vector<Done>> asked_;  // by `native`
};

}  // namespace ddprun::agent
