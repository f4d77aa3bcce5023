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

#include "agent/ask/whole_status.h"
#include "rendezvous/wire/inquiry.h"

namespace ddprun::agent {

/// How long answers may take.
struct AnswerLimits {
  std::chrono::milliseconds pause{5'000};  ///< without any
  std::chrono::milliseconds all{15'000};   ///< for all to one question
};

/// Asks the nodes of a job, this one among them, through its master, and collects their answers.
/// One question after the other, and of each only a few are under way at a time: what the nodes
/// answer must not fill this node's line to the master.
///
/// Destroying it drops the questions. Thread: the executor's.
class NodeQuestions {
 public:
  using Wanted = std::function<bool(const rendezvous::ListedNode& node)>;
  using Done = std::function<void(ask::NodeAnswers answers)>;

  /// `send` passes a message to the master, where that can be reached.
  NodeQuestions(const boost::asio::any_io_executor& executor,
                std::function<void(rendezvous::Inquiry)> send, AnswerLimits limits = {});

  /// Asks `question` of the nodes that are `wanted`, always the same for the same question. Calls
  /// `done` later, once: when all have answered, or when the limits are over, with why others have
  /// not.
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
  std::uint64_t turn_ = 0;  // of a wait for an answer: a timer may have expired for an older one
  std::chrono::steady_clock::time_point ends_;  // whatever comes
  std::size_t bytes_ = 0;                       // of the answers
  bool listing_ = false;
  rendezvous::NodeId listed_to_ = 0;
  ask::NodeAnswers answers_;                   // to the first one
  std::size_t asked_ = 0;                      // of its nodes
  std::map<std::uint64_t, std::size_t> open_;  // by the number of a question: which node
  /// Random at first: the answer to a question that was asked through another master is another
  /// agent's, should that have this one's id now.
  std::uint64_t last_number_ = 0;  // 0: none yet
};

}  // namespace ddprun::agent
