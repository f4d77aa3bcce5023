// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "agent/ask/http_server.h"
#include "agent/ask/log_piece.h"
#include "agent/ask/node_questions.h"
#include "agent/ask/routes.h"
#include "agent/ask/status.h"
#include "agent/diagnosis/gpu_watch.h"
#include "base/async_jobs.h"
#include "rendezvous/wire/inquiry.h"

namespace ddprun::agent {

/// Answers questions about a running job that come from this host, through a unix socket:
/// ask::Routes has the questions. Nothing runs and nothing is read until a question comes.
///
/// Destroying it drops the answers that are still to come. Thread: the executor's.
class Answers {
 public:
  struct Hooks {
    /// The status as this agent knows it, without a look at the workers.
    std::function<ask::JobStatus()> status;
    /// This worker's output after its first `from` bytes; nullopt: it is of another node.
    std::function<std::optional<ask::LogPiece>(int rank, std::uint64_t from)> log;
    /// Whether the master can be reached now.
    std::function<bool()> has_master;
    std::function<void(rendezvous::Inquiry)> send;  ///< to the master
    /// The whole job is to stop; called once.
    std::function<void()> stop;
  };

  /// `devices` are the GPUs of this node.
  Answers(boost::asio::any_io_executor executor, std::vector<std::string> devices, Hooks hooks);

  /// Begins to answer for the job of this name. What the socket's file system needs for that comes
  /// before the first lease. Without a place for a socket questions are impossible, and a warning
  /// says so.
  void open(const std::string& job);

  /// Handles a message of the master: a question of another node, or an answer.
  void received(const rendezvous::Inquiry& inquiry);

  /// For other parts of the agent, before open(): what they answer. A GET with "node=1" in its
  /// query is about this node alone, and other nodes may ask it, too.
  ask::Routes& routes() { return routes_; }

  /// Asks `question`, a path and a query with "node=1", of all nodes of the job, this one included.
  NodeQuestions& nodes() { return nodes_; }

 private:
  void answer_status(const ask::Question& question, const ask::Respond& respond);
  void answer_own_status(const std::string& why, const ask::Respond& respond);
  void look(ask::JobStatus status, size_t most_ranks, const ask::Respond& respond);
  void answer_node_status(const ask::Respond& respond);
  void answer_log(const ask::Question& question, const ask::Respond& respond);
  void answer_stop(const ask::Respond& respond);
  void answer_node(const rendezvous::Inquired& inquired);

  Hooks hooks_;
  ask::Routes routes_;
  NodeQuestions nodes_;
  bool stopping_ = false;
  GpuWatch gpus_;
  AsyncJobs looks_;  // at the workers
  ask::HttpServer server_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::agent
