// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/node_questions.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {
namespace {

/// With the longest answers, three quarters of what the master buffers for a line.
constexpr size_t kMostAsked = 8;

constexpr size_t kMostAnswered = 64 * 1024 * 1024;  // of all answers

}  // namespace

std::int64_t host_microseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

NodeQuestions::NodeQuestions(const boost::asio::any_io_executor& executor,
                             std::function<void(rendezvous::Inquiry)> send, AnswerLimits limits)
    : send_(std::move(send)), limits_(limits), limit_(executor) {}

void NodeQuestions::ask(std::string question, Wanted wanted, Done done) {
  waiting_.push_back({std::move(question), std::move(wanted), std::move(done)});
  if (!begun_) begin_next();
}

void NodeQuestions::received(const rendezvous::Inquiry& inquiry) {
  if (!begun_) return;
  if (const auto* list = std::get_if<rendezvous::NodeList>(&inquiry)) on_listed(*list);
  if (const auto* informed = std::get_if<rendezvous::Informed>(&inquiry)) on_informed(*informed);
}

void NodeQuestions::begin_next() {
  begun_ = !waiting_.empty();
  if (!begun_) return;
  answers_ = {};
  asked_ = bytes_ = 0;
  open_.clear();
  ends_ = std::chrono::steady_clock::now() + limits_.all;
  wait();
  list(0);
}

/// Each answer extends the deadline: stacks take seconds, and nodes answer in turn.
void NodeQuestions::wait() {
  limit_.expires_at(std::min(ends_, std::chrono::steady_clock::now() + limits_.pause));
  limit_.async_wait([this, turn = ++turn_](boost::system::error_code cancelled) {
    if (!cancelled && turn == turn_) end();
  });
}

void NodeQuestions::list(rendezvous::NodeId after) {
  listing_ = true;
  listed_to_ = after;
  send_(rendezvous::ListNodes{after});
}

void NodeQuestions::on_listed(const rendezvous::NodeList& listed) {
  if (!listing_ || listed.after != listed_to_) return;
  for (const rendezvous::ListedNode& node : listed.nodes) {
    if (!waiting_.front().wanted(node)) continue;
    answers_.nodes.push_back({node, "", node.connected ? "no answer" : "it is not connected"});
  }
  answers_.waiting = listed.waiting;
  listing_ = listed.more && !listed.nodes.empty() && listed.nodes.back().id > listed_to_;
  if (listing_) return list(listed.nodes.back().id);
  // A node that hangs keeps one of the few turns until the end, so silent nodes come last.
  std::ranges::stable_sort(answers_.nodes, {},
                           [](const ask::NodeAnswer& answer) { return answer.node.silent; });
  ask_more();
}

/// Draws the random number only now: it would delay the start of a job, because a virtual machine
/// has to emulate the CPUID instructions in it.
std::uint64_t NodeQuestions::next_number() {
  if (last_number_ == 0) last_number_ = std::random_device()();
  return ++last_number_;
}

void NodeQuestions::ask_more() {
  for (; asked_ < answers_.nodes.size() && open_.size() < kMostAsked; ++asked_) {
    const rendezvous::ListedNode& node = answers_.nodes[asked_].node;
    if (!node.connected) continue;
    const std::uint64_t number = next_number();
    open_.emplace(number, asked_);
    answers_.nodes[asked_].clock.begin = host_microseconds();
    send_(rendezvous::Inquire{number, node.id, waiting_.front().question});
  }
  if (open_.empty()) end();
}

void NodeQuestions::on_informed(const rendezvous::Informed& informed) {
  const auto question = open_.find(informed.number);
  if (question == open_.end()) return;
  ask::NodeAnswer& answer = answers_.nodes[question->second];
  if (answer.node.id != informed.node) return;
  answer.clock.end = host_microseconds();
  bytes_ += informed.answer.size();
  if (bytes_ <= kMostAnswered) answer.answer = informed.answer;
  open_.erase(question);
  wait();
  ask_more();
}

/// Ends the first question with the answers that have come. Equal questions get the same answers: a
/// job that hangs may be asked faster than it answers.
void NodeQuestions::end() {
  limit_.cancel();
  ++turn_;
  Waiting ended = std::move(waiting_.front());
  waiting_.pop_front();
  listing_ = false;
  for (; asked_ < answers_.nodes.size(); ++asked_) {
    ask::NodeAnswer& answer = answers_.nodes[asked_];
    if (answer.node.connected) answer.problem = "it was not asked in time";
  }
  std::vector<Done> done = {std::move(ended.done)};
  const auto is_same = [&ended](const Waiting& one) { return one.question == ended.question; };
  for (const Waiting& one : waiting_) {
    if (is_same(one)) done.push_back(one.done);
  }
  std::erase_if(waiting_, is_same);
  ask::NodeAnswers answers = std::exchange(answers_, {});
  std::ranges::sort(answers.nodes, {},
                    [](const ask::NodeAnswer& answer) { return answer.node.id; });
  begin_next();
  for (const Done& each : done) each(answers);
}

}  // namespace ddprun::agent
