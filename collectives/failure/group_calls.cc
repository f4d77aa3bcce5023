// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/group_calls.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/failure/trace.h"
#include "collectives/failure/watchdog.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kForever = std::chrono::hours(24 * 365);  // a deadline has to be a time

class FollowedCall : public AsyncCall {
 public:
  FollowedCall(std::shared_ptr<GroupCalls> calls, GroupCalls::Ticket ticket,
               std::shared_ptr<AsyncCall> async)
      : calls_(std::move(calls)), ticket_(ticket), async_(std::move(async)) {}

  bool is_completed() override { return async_->is_completed() && see_end(); }

  std::optional<Error> error() override {
    const auto error = async_->error();
    return error ? std::optional(calls_->fail(ticket_, *error)) : std::nullopt;
  }

  void wait() override {
    try {
      async_->wait();
    } catch (const Error& error) {
      throw Error(calls_->fail(ticket_, error));
    }
    static_cast<void>(is_completed());
  }

  bool completes_until(steady_clock::time_point deadline) override {
    return async_->completes_until(deadline) && see_end();
  }

  std::optional<std::chrono::nanoseconds> duration() override { return async_->duration(); }

 private:
  bool see_end() {
    if (const auto error = async_->error()) {
      calls_->fail(ticket_, *error);
    } else {
      calls_->succeed(ticket_);
    }
    return true;
  }

  std::shared_ptr<GroupCalls> calls_;
  GroupCalls::Ticket ticket_;
  std::shared_ptr<AsyncCall> async_;
};

/// Known to be done, and well.
bool is_done(const std::shared_ptr<AsyncCall>& async) {
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

GroupCalls::GroupCalls(GroupContext context, const std::string& backend_name)
    : context_(std::move(context)),
      group_(recorder_.add(describe(context_, backend_name))),
      limit_(std::min(context_.timeout, kForever)) {}

GroupCalls::~GroupCalls() {
  recorder_.remove(group_);
}

Call GroupCalls::call_of(const Task& task) {
  Call call{.count = task.count, .operation = task.operation};
  call.type = static_cast<std::uint8_t>(task.type);
  call.reduce = static_cast<std::uint8_t>(task.reduce);
  call.root = context_.named(task.root);
  if (!is_point_to_point(task.operation)) {
    call.number = ++calls_so_far_;
    return call;
  }
  call.number = ++messages_so_far_;
  if (task.operation == Operation::batch_send_recv) {
    call.count = task.transfers.size();
    call.root = -1;
    return call;
  }
  const Transfer& message = task.transfers.front();
  call.count = message.count;
  call.type = static_cast<std::uint8_t>(message.type);
  call.root = context_.named(message.peer);
  call.tag = message.tag;
  return call;
}

void GroupCalls::set_limit(milliseconds limit) {
  limit_ = std::min(limit, kForever);
}

GroupCalls::Ticket GroupCalls::begin(const Task& task) {
  const Time now = steady_clock::now();
  const milliseconds limit = limit_;
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  while (!calls_.empty() && is_done(calls_.front().async)) {
    close(calls_, calls_.begin(), true, now);
  }
  const Call call = call_of(task);
  const Ticket ticket = recorder_.begin(group_, call, now);
  Opens& line = is_point_to_point(call.operation) ? messages_ : calls_;
  line.push_back({ticket, call, limit, now, nullptr});
  if (watchdog_) watchdog_->look_at(next_look(now));
  return ticket;
}

/// Those behind a call of all ranks have their time from its end.
GroupCalls::Opens::iterator GroupCalls::close(Opens& line, const Opens::iterator& open, bool well,
                                              Time now) {
  recorder_.end(open->ticket, well, now);
  const bool first = open == line.begin();
  if (&line == &calls_ && well) last_ = open->call;
  const auto next = line.erase(open);
  if (&line == &calls_ && first && !line.empty()) line.front().since = now;
  return next;
}

void GroupCalls::close(Ticket ticket, bool well) {
  const Time now = steady_clock::now();
  const std::lock_guard lock(mutex_);
  for (Opens* line : {&calls_, &messages_}) {
    const auto open = std::ranges::find(*line, ticket, &Open::ticket);
    if (open == line->end()) continue;
    close(*line, open, well, now);
    return;
  }
}

void GroupCalls::succeed(Ticket ticket) {
  close(ticket, true);
}

Error GroupCalls::fail(Ticket ticket, const Error& error) {
  close(ticket, false);
  return fail(error);
}

Error GroupCalls::fail(const Error& error) {
  if (const auto first = note(error)) return *first;
  if (error.kind() == ErrorKind::peer_lost) spread(error);
  return error;
}

/// The failure that there was before, if any.
std::optional<Error> GroupCalls::note(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return failure_;
    failure_ = error;
  }
  write_trace_of_failure(context_.named(context_.rank), error.what());
  return std::nullopt;
}

std::shared_ptr<AsyncCall> GroupCalls::follow(Ticket ticket, std::shared_ptr<AsyncCall> async) {
  {
    const std::lock_guard lock(mutex_);
    for (Opens* line : {&calls_, &messages_}) {
      const auto open = std::ranges::find(*line, ticket, &Open::ticket);
      if (open != line->end()) open->async = async;
    }
  }
  return std::make_shared<FollowedCall>(shared_from_this(), ticket, std::move(async));
}

bool GroupCalls::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

}  // namespace ddp::internal
