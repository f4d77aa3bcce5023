// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/ask/whole_job.h"
#include "rendezvous/wire/inquiry.h"

namespace ddprun::agent {

/// Now, by this host's clock: microseconds since the epoch.
std::int64_t host_microseconds();

/// How long answers may take.
struct AnswerLimits {
  std::chrono::milliseconds pause{5'000};  ///< between two answers
  std::chrono::milliseconds all{15'000};   ///< for all answers to a question
};

/// Asks the nodes of a job, including this one, through the master, and collects their answers.
/// Asks one question after the other, and only a few nodes at a time: the answers must not fill
/// this node's line to the master.
///
/// Destroying it drops the questions. Thread: the executor's.
class NodeQuestions {
 public:
  using Wanted = std::function<bool(const rendezvous::ListedNode& node)>;
  using Done = std::function<void(ask::NodeAnswers answers)>;

  /// `send` passes a message to the master, if it can be reached.
  NodeQuestions(const boost::asio::any_io_executor& executor,
                std::function<void(rendezvous::Inquiry)> send, AnswerLimits limits = {});

  /// Asks the `wanted` nodes, which must be the same for equal questions. Calls `done` once, later:
  /// when all have answered, or when the limits are over. NodeAnswer::problem then says why a node
  /// has not answered.
  void ask(std::string question, Wanted wanted, Done done);

  /// Handles a message of the master.
  void received(const rendezvous::Inquiry& inquiry);

 private:
  struct Waiting {
    std::string question;
    Wanted wanted;
    Done done;
  };

  void begin_next();
  void wait();
  void list(rendezvous::NodeId after);
  void on_listed(const rendezvous::NodeList& list);
  void on_informed(const rendezvous::Informed& informed);
  void ask_more();
  void end();
  std::uint64_t next_number();

  std::function<void(rendezvous::Inquiry)> send_;
  AnswerLimits limits_;
  boost::asio::steady_timer limit_;
  std::deque<Waiting> waiting_;  // the first one is under way
  bool begun_ = false;
  std::uint64_t turn_ = 0;  // counts the waits: the timer of an older one may have expired
  std::chrono::steady_clock::time_point ends_;  // the latest end of the first question
  std::size_t bytes_ = 0;                       // of the answers
  bool listing_ = false;
  rendezvous::NodeId listed_to_ = 0;
  ask::NodeAnswers answers_;                   // to the first one
  std::size_t asked_ = 0;                      // of its nodes
  std::map<std::uint64_t, std::size_t> open_;  // number of a question: index of the node
  /// Random at first. After a change of master, a late answer may reach the agent that now has the
  /// asker's id: it must match no question of that agent.
  std::uint64_t last_number_ = 0;  // 0: none yet
};

}  // namespace ddprun::agent
