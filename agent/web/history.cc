// SPDX-License-Identifier: Apache-2.0
#include "agent/web/history.h"

#include <string_view>
#include <sys/wait.h>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace ddprun::agent::web {
namespace {

constexpr size_t kMostEvents = 50;
constexpr size_t kMostText = 1000;  // bytes of each

/// Cuts first: so nothing here takes longer if a worker wrote more.
std::string short_text(std::string text) {
  return cut(printable(cut(std::move(text), kMostText)), kMostText);
}

}  // namespace

std::string cause_of(const rendezvous::Failure& failure) {
  if (failure.hung) return "hang";
  const bool by_signal = WIFSIGNALED(failure.wait_status);
  if (failure.pid == 0) return by_signal ? "node_lost" : "not_started";
  if (failure.cause.starts_with("out of memory")) return "out_of_memory";
  return by_signal ? "signal" : "exit";
}

void History::round_began(double at, const rendezvous::Layout& layout) {
  if (down_since_) downtime_ += at - *down_since_;
  down_since_.reset();
  running_ = "round " + std::to_string(layout.round) + " runs with " +
             count_text(layout.world_size, "rank") + " on " + count_text(layout.node_count, "node");
  matter_.clear();
  state_ = "running";
  hangs_ = false;
  add(at, "round", running_);
}

void History::failed(double at, const rendezvous::Failure& failure, std::string sentence) {
  ++failures_[cause_of(failure)];
  round_ended(at);
  state_ = "failed";
  matter_ = short_text(std::move(sentence));
  add(at, "failure", matter_);
  if (failure.pid != 0 && !failure.hung) latest_.back().rank = failure.rank;
}

void History::changed(double at, std::string sentence) {
  round_ended(at);
  state_ = "regrouping";
  matter_ = short_text(std::move(sentence));
  add(at, "change", matter_);
}

void History::suspected(double at, std::string sentence) {
  add(at, "suspect", short_text(std::move(sentence)));
}

void History::stalled(double at, std::string lines) {
  hangs_ = lines.find('\n') != std::string::npos;
  lines = short_text(std::move(lines));
  matter_ = hangs_ ? lines : "";
  state_ = hangs_ ? "hangs" : "running";
  add(at, hangs_ ? "hang" : "progress", std::move(lines));
}

void History::warned(double at, std::string sentence) {
  if (is_over_) return;
  state_ = "warning";
  matter_ = short_text(std::move(sentence));
  add(at, "warning", matter_);
}

void History::recovered(double at, std::string sentence) {
  if (is_over_) return;
  const bool is_well = !running_.empty() && std::string_view(state_) == "warning";
  if (is_well) {
    state_ = "running";
    matter_.clear();
  }
  add(at, "progress", short_text(std::move(sentence)));
}

void History::stopping(double at, std::string sentence) {
  state_ = "stopping";
  matter_ = short_text(std::move(sentence));
  add(at, "stop", matter_);
}

void History::ended(double at, const char* state, std::string sentence, bool well) {
  is_over_ = true;
  state_ = state;
  running_ = short_text(std::move(sentence));
  matter_ = well ? "" : running_;
  add(at, "end", running_);
}

/// Counts downtime only after a round in which this node's workers began.
void History::round_ended(double at) {
  if (!running_.empty()) down_since_ = at;
  running_.clear();
  hangs_ = false;
}

void History::add(double at, const char* kind, std::string text) {
  if (latest_.size() == kMostEvents) latest_.pop_front();
  latest_.push_back({.at = at, .kind = kind, .text = std::move(text)});
}

std::string History::verdict() const {
  if (!matter_.empty()) return matter_;
  return running_.empty() ? "this node is in no round yet" : running_;
}

double History::downtime(double now) const {
  return downtime_ + (down_since_ ? now - *down_since_ : 0);
}

std::string History::json(double now) const {
  Json events = Json::array();
  for (const HistoryEvent& one : latest_) {
    events.push_back({{"at", whole_milliseconds(one.at)}, {"kind", one.kind}, {"text", one.text}});
    if (one.rank >= 0) events.back()["rank"] = one.rank;
  }
  const Json object = {{"verdict", verdict()},
                       {"state", state_},
                       {"well", matter_.empty()},
                       {"seconds", whole_milliseconds(now)},
                       {"events", std::move(events)}};
  return json_text(object);
}

}  // namespace ddprun::agent::web
