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

/// Answers questions about a running job that this host's processes ask through a unix socket;
/// ask::Routes has the questions. Reads nothing until a question comes.
///
/// Destroying it drops the pending answers. Thread: the executor's.
class Answers {
 public:
  struct Hooks {
    /// The status as this agent knows it, without samples of the workers.
    std::function<ask::JobStatus()> status;
    /// This worker's output after its first `from` bytes; nullopt: another node has the worker.
    std::function<std::optional<ask::LogPiece>(int rank, std::uint64_t from)> log;
    /// Whether the master can be reached now.
    std::function<bool()> has_master;
    std::function<void(rendezvous::Inquiry)> send;  ///< to the master
    /// Called once, when the whole job is to stop.
    std::function<void()> stop;
  };

  /// `devices` are the GPUs of this node.
  Answers(boost::asio::any_io_executor executor, std::vector<std::string> devices, Hooks hooks);

  /// Begins to answer for the job of this name. It touches the file system, so call it before the
  /// first lease. If no folder can have the socket, logs a warning, and nobody can ask.
  void open(const std::string& job);

  /// Handles a message of the master: a question of another node, or an answer.
  void received(const rendezvous::Inquiry& inquiry);

  /// The table to which other parts of the agent add their questions before open(). A GET with
  /// "node=1" in its query is about this node alone, and other nodes may ask it, too.
  ask::Routes& routes() { return routes_; }

  /// Asks all nodes of the job, including this one. A question is a path and a query with "node=1".
  NodeQuestions& nodes() { return nodes_; }

 private:
  void answer_status(const ask::Question& question, const ask::Respond& respond);
  void answer_own_status(const std::string& why, const ask::Respond& respond);
  void look(ask::JobStatus status, std::optional<std::int64_t> asked, const ask::Respond& respond);
  void answer_node_status(const ask::Respond& respond);
  void answer_log(const ask::Question& question, const ask::Respond& respond);
  void answer_stop(const ask::Respond& respond);
  void answer_node(const rendezvous::Inquired& inquired);

  Hooks hooks_;
  ask::Routes routes_;
  NodeQuestions nodes_;
  bool stopping_ = false;
  GpuWatch gpus_;
  AsyncJobs looks_;  // they sample the workers
  ask::HttpServer server_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::agent
