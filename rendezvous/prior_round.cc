// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/prior_round.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/text.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostWays = 3;  // ways to end; the other failed workers share a line
constexpr size_t kMostSignals = 2;
constexpr size_t kMostRuns = 8;      // of ranks in a line about failed workers
constexpr size_t kLongestText = 80;  // of a text that another node wrote

std::string short_text(const std::string& text) {
  std::string line = printable(std::string_view(text).substr(0, kLongestText));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string took_text(double seconds) {
  const std::chrono::duration<double> took(seconds);
  return duration_text(std::chrono::duration_cast<std::chrono::nanoseconds>(took));
}

void append(std::vector<int>& ranks, const std::vector<int>& more) {
  ranks.insert(ranks.end(), more.begin(), more.end());
}

}  // namespace

void FailureSummary::add(const WorkerExits& of_node) {
  for (const FailedWorker& worker : of_node.failed) {
    failed_[worker.how].push_back(worker.rank);
  }
  if (of_node.stopped.empty()) return;
  Stop& stop = stops_[of_node.signal];
  append(stop.ranks, of_node.stopped);
  append(stop.killed, of_node.killed);
  stop.seconds = std::max(stop.seconds, of_node.seconds);
}

std::string FailureSummary::text(int root_cause) const {
  std::vector<std::pair<std::string, std::vector<int>>> ways(failed_.begin(), failed_.end());
  for (auto& [how, ranks] : ways) std::erase(ranks, root_cause);
  std::erase_if(ways, [](const auto& way) { return way.second.empty(); });
  std::stable_sort(ways.begin(), ways.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });

  std::string text;
  std::vector<int> others;
  for (size_t i = 0; i < ways.size(); ++i) {
    const auto& [how, ranks] = ways[i];
    if (i >= kMostWays) {
      append(others, ranks);
      continue;
    }
    text += "\n" + ranks_text(ranks, kMostRuns) + " failed too (" + short_text(how) + ")";
  }
  if (!others.empty()) text += "\n" + ranks_text(others, kMostRuns) + " failed in other ways";

  size_t signals = 0;
  for (const auto& [signal, stop] : stops_) {
    if (++signals > kMostSignals) break;
    text += "\n" + ranks_text(stop.ranks, kMostRuns) + (stop.ranks.size() == 1 ? " was" : " were") +
            " stopped by ddprun (" + short_text(signal) + ", gone after " + took_text(stop.seconds);
    if (!stop.killed.empty() && signal != "SIGKILL") {
      text += "; " + ranks_text(stop.killed, kMostRuns) + " needed SIGKILL";
    }
    text += ')';
  }
  return text.empty() ? text : text.substr(1);
}

namespace {

/// More than a job has had; it bounds what nodes report.
constexpr size_t kMostMasters = 64;

}  // namespace

void PriorRound::learn(const JoinRequest& request) {
  if (request.last_round > round_) {
    *this = PriorRound{};
    round_ = request.last_round;
  }
  if (request.last_round != round_ || settled_) return;
  members_ = std::max(members_, request.last_guests + (request.last_hosted ? 1 : 0));
  restarts_ = request.last_restarts;
  if (!failure_) failure_ = request.unreported_failure;
  if (back_.insert(request.last_node_rank).second) exits_.add(request.worker_exits);
}

int PriorRound::missing() const {
  return settled_ ? 0 : std::max(0, members_ - static_cast<int>(back_.size()));
}

void PriorRound::settle() {
  settled_ = true;
  back_.clear();
  failure_.reset();
  exits_ = {};
}

void PriorRounds::learn(const JoinRequest& request) {
  if (request.last_round < 0) return;
  const auto found = by_master_.find(request.last_master);
  if (found != by_master_.end()) return found->second.learn(request);
  if (by_master_.size() < kMostMasters) by_master_[request.last_master].learn(request);
}

int PriorRounds::missing() const {
  int missing = 0;
  for (const auto& [master, round] : by_master_) missing += round.missing();
  return missing;
}

bool PriorRounds::all_back() const {
  return latest().round() >= 0 && missing() == 0;
}

template <class Key>
const PriorRound& PriorRounds::greatest(Key key) const {
  static const PriorRound none;
  const PriorRound* greatest = &none;
  for (const auto& [master, round] : by_master_) {
    if (!round.is_settled() && key(round) > key(*greatest)) greatest = &round;
  }
  return *greatest;
}

const PriorRound& PriorRounds::latest() const {
  return greatest(
      [](const PriorRound& round) { return 2 * round.round() + (round.failure() ? 1 : 0); });
}

const PriorRound& PriorRounds::awaited() const {
  return greatest([](const PriorRound& round) { return round.missing(); });
}

void PriorRounds::forget_failures() {
  for (auto& [master, round] : by_master_) round.forget_failure();
}

void PriorRounds::settle() {
  for (auto& [master, round] : by_master_) round.settle();
}

}  // namespace ddprun::rendezvous
