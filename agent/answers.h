// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "agent/ask/http_server.h"
#include "agent/ask/routes.h"
#include "agent/ask/status.h"
#include "base/async_jobs.h"

namespace ddprun::agent {

/// Answers what somebody on this host asks of a running job, through a unix socket: ask::Routes has
/// the questions. Nothing runs and nothing is read while nobody asks.
///
/// Destroying it drops the answers that are still to come. Thread: the executor's.
class Answers {
 public:
  struct Hooks {
    /// The status as this agent knows it, without a look at the workers.
    std::function<ask::JobStatus()> status;
  };

  Answers(boost::asio::any_io_executor executor, Hooks hooks);

  /// Begins to answer for the job of this name. What the socket's file system needs for that comes
  /// before the first lease. Where there is no place for a socket, nobody can ask: a line of debug
  /// output says so.
  void open(const std::string& run_id);

  /// For other parts of the agent, before open(): what they answer.
  ask::Routes& routes() { return routes_; }

 private:
  void answer_status(const ask::Respond& respond);

  Hooks hooks_;
  ask::Routes routes_;
  AsyncJobs looks_;  // at the workers
  ask::HttpServer server_;
};

}  // namespace ddprun::agent
