// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/open_calls.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "collectives/agreement/rank_status.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;

/// Extra time for calls between two ranks: a library that watches them itself says which message is
/// missing, and which came instead.
constexpr milliseconds kMessageGrace(1000);

/// Whether the call is known to have ended without an error.
bool has_succeeded(const std::shared_ptr<AsyncCall>& async) {
  return async && async->is_completed() && !async->error();
}

FlightRecorder::Group describe(const GroupContext& context, const std::string& backend) {
  std::vector<int> ranks = context.whole;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(context.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return {context.prefix, backend, context.rank, std::move(ranks)};
}

}  // namespace

OpenCalls::OpenCalls(const GroupContext& context, const std::string& backend_name)
    : context_(context),
      group_(recorder_.add(describe(context, backend_name))),
      published_(context) {}

OpenCalls::~OpenCalls() {
  recorder_.remove(group_);
}

Call OpenCalls::call_of(const Task& task) {
  Call call{.count = task.count, .operation = task.operation};
  call.type = static_cast<std::uint8_t>(task.type);
  call.reduce = static_cast<std::uint8_t>(task.reduce);
  call.root = context_.named(task.root);
  if (!is_point_to_point(task.operation)) {
    call.number = ++collective_count_;
    return call;
  }
  if (task.operation != Operation::batch_send_recv) return call_of(task.transfers.front());
  call.number = ++message_count_;
  call.count = task.transfers.size();
  call.root = -1;
  return call;
}

Call OpenCalls::call_of(const Transfer& message) {
  return {.number = ++message_count_,
          .count = message.count,
          .root = context_.named(message.peer),
          .tag = message.tag,
          .operation = message.sends ? Operation::send : Operation::recv,
          .type = static_cast<std::uint8_t>(message.type)};
}

/// Closes asynchronous calls whose end nobody has noticed yet.
void OpenCalls::close_succeeded(Time now) {
  while (!collectives_.empty() && has_succeeded(collectives_.front().async)) {
    close(collectives_, collectives_.begin(), true, now);
  }
}

OpenCalls::CallId OpenCalls::begin(const Task& task, milliseconds limit, Time now) {
  close_succeeded(now);
  const Call call = call_of(task);
  const CallId id = recorder_.begin(group_, call, now);
  Queue& queue = is_point_to_point(call.operation) ? messages_ : collectives_;
  queue.push_back({id, call, limit, now, nullptr});
  publish();
  return id;
}

void OpenCalls::record(const Task& task, Time now) {
  close_succeeded(now);
  const Call call = call_of(task);
  recorder_.record(group_, call, now);
  last_ = call;
  publish();
}

void OpenCalls::record(const Transfer& message, Time now) {
  recorder_.record(group_, call_of(message), now);
}

void OpenCalls::set_async(CallId id, const std::shared_ptr<AsyncCall>& async) {
  for (Queue* queue : {&collectives_, &messages_}) {
    const auto open = std::ranges::find(*queue, id, &OpenCall::id);
    if (open != queue->end()) open->async = async;
  }
}

/// First closes calls before it, which have ended, too.
void OpenCalls::close(CallId id, bool succeeded, Time now) {
  close_succeeded(now);
  for (Queue* queue : {&collectives_, &messages_}) {
    const auto open = std::ranges::find(*queue, id, &OpenCall::id);
    if (open == queue->end()) continue;
    close(*queue, open, succeeded, now);
    return;
  }
}

/// The time of the next collective call begins now.
OpenCalls::Queue::iterator OpenCalls::close(Queue& queue, const Queue::iterator& open,
                                            bool succeeded, Time now) {
  recorder_.end(open->id, succeeded, now);
  const bool first = open == queue.begin();
  if (&queue == &collectives_ && succeeded) last_ = open->call;
  if (first) queue.pop_front();
  const auto next = first ? queue.begin() : queue.erase(open);
  if (&queue == &collectives_ && first && !queue.empty()) queue.front().since = now;
  publish();
  return next;
}

void OpenCalls::publish() noexcept {
  published_.publish(collective_count_, collectives_.empty() ? nullptr : &collectives_.front().call,
                     last_ ? &*last_ : nullptr);
}

std::optional<Error> OpenCalls::close_completed(Time now) {
  std::optional<Error> failure;
  for (Queue* queue : {&collectives_, &messages_}) {
    for (auto open = queue->begin(); open != queue->end();) {
      if (!open->async || !open->async->is_completed()) {
        if (queue == &collectives_) break;  // those after it have not ended either
        ++open;
        continue;
      }
      const auto error = open->async->error();
      if (!failure) failure = error;
      open = close(*queue, open, !error, now);
    }
  }
  return failure;
}

OpenCalls::Time OpenCalls::next_check(Time now) const {
  Time next = Time::max();
  for (const OpenCall& message : messages_) {
    next = std::min(next, message.since + message.limit + kMessageGrace);
  }
  if (collectives_.empty()) return next;
  const OpenCall& first = collectives_.front();
  next = std::min(next, first.since + first.limit);
  if (collectives_.size() == 1 || !first.async) return next;
  const auto interval = std::clamp(first.limit / 8, milliseconds(10), milliseconds(1000));
  return std::min(next, now + interval);
}

std::optional<TimedOutCall> OpenCalls::find_timed_out(Time now) const {
  if (!collectives_.empty()) {
    const OpenCall& first = collectives_.front();
    if (first.since + first.limit <= now) return TimedOutCall{first.call, first.limit};
  }
  const auto message = std::ranges::find_if(messages_, [&](const OpenCall& open) {
    return open.since + open.limit + kMessageGrace <= now;
  });
  if (message == messages_.end()) return std::nullopt;
  return TimedOutCall{message->call, message->limit};
}

const OpenCalls::OpenCall* OpenCalls::first() const {
  if (!collectives_.empty()) return &collectives_.front();
  return messages_.empty() ? nullptr : &messages_.front();
}

std::string OpenCalls::current() const {
  return first() == nullptr ? "" : "in " + internal::describe(first()->call);
}

std::string OpenCalls::status() const {
  if (first() != nullptr) return status_at(first()->call);
  return last_ ? "in no call since " + internal::describe(*last_) : "in no call yet";
}

std::string OpenCalls::status_in(std::uint64_t number) const {
  for (const FlightRecorder::Entry& entry : recorder_.entries()) {
    const bool is_it = entry.group == group_ && entry.call.number == number;
    if (is_it && !is_point_to_point(entry.call.operation)) return status_at(entry.call);
  }
  return status();
}

}  // namespace ddp::internal
