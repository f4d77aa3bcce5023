// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/handshake_threads.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace ddprun::rendezvous {
namespace {

/// Leaves one processor to the event loop; more than four threads would wait for it.
std::size_t thread_count() {
  const std::size_t processors = std::thread::hardware_concurrency();
  return std::clamp<std::size_t>(processors, 2, 5) - 1;
}

HandshakeThreads::Answer answer_to(std::shared_ptr<const Security> security,
                                   const std::string& record) {
  auto channel = std::make_unique<SecureChannel>(std::move(security), SecureChannel::Role::master);
  Result<> received = channel->receive(record);
  std::string output = channel->take_output();
  return {std::move(channel), std::move(received), std::move(output)};
}

}  // namespace

void HandshakeQueue::add(store::SourceNetwork source, Number number) {
  std::deque<Number>& others = waiting_[source];
  if (others.empty()) turns_.push_back(source);
  others.push_back(number);
}

std::optional<HandshakeQueue::Number> HandshakeQueue::next() {
  if (turns_.empty()) return std::nullopt;
  const store::SourceNetwork source = turns_.front();
  turns_.pop_front();
  const auto found = waiting_.find(source);
  const Number number = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) {
    waiting_.erase(found);
  } else {
    turns_.push_back(source);
  }
  return number;
}

HandshakeThreads::HandshakeThreads(boost::asio::any_io_executor executor)
    : executor_(std::move(executor)), lanes_(thread_count()) {}

HandshakeThreads::~HandshakeThreads() {
  constexpr std::chrono::seconds kLongest{10};  // each takes 0.1 ms
  closing_ = true;
  for (Lane& lane : lane_list_) {
    lane.jobs.wait_until_idle(std::chrono::steady_clock::now() + kLongest);
  }
}

void HandshakeThreads::compute(std::shared_ptr<const Security> security, std::string record,
                               Done done) {
  Lane& lane = next_lane();
  ++lane.under_way;
  ++under_way_;
  lane.jobs.run([security = std::move(security),
                 record = std::move(record)] { return answer_to(security, record); },
                [this, &lane, done = std::move(done)](Answer answer) {
                  --lane.under_way;
                  --under_way_;
                  if (!closing_) done(std::move(answer));
                });
}

/// Returns an idle lane, a new one while there may be more, or the one with the fewest jobs.
HandshakeThreads::Lane& HandshakeThreads::next_lane() {
  const auto least = std::min_element(
      lane_list_.begin(), lane_list_.end(),
      [](const Lane& one, const Lane& other) { return one.under_way < other.under_way; });
  const bool is_idle = least != lane_list_.end() && least->under_way == 0;
  if (is_idle || lane_list_.size() == lanes_) return *least;
  return lane_list_.emplace_back(executor_);
}

}  // namespace ddprun::rendezvous
