// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "agent/ask/answers.h"
#include "agent/node_workers.h"
#include "base/async_jobs.h"

namespace ddprun::agent {

/// Shows where the workers are: answers the question "/stacks", and a signal.
///
/// Thread: that of its references' executor.
class StackAnswers {
 public:
  /// The references must outlive this. `threads` merge the answers of many nodes.
  StackAnswers(NodeWorkers& workers, Answers& answers, AsyncJobs& threads)
      : workers_(workers), answers_(answers), threads_(threads) {}

  /// Adds the route. Call it before Answers::open.
  void add_route();

  /// Shows the stacks of this node's workers on the console, whatever --log_level says.
  void show();

  /// The same for all nodes' workers, as a warning.
  void show_all();

 private:
  void ask_all(bool native, std::function<void(ask::NodeAnswers)> done);
  void answer(const ask::Question& question, const ask::Respond& respond);
  void answer_node(bool native, const ask::Respond& respond);

  NodeWorkers& workers_;
  Answers& answers_;
  AsyncJobs& threads_;
};

}  // namespace ddprun::agent
