// SPDX-License-Identifier: Apache-2.0
#include "collectives/group_calls.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/trace.h"

namespace ddp::internal {
namespace {

using std::chrono::steady_clock;

class FollowedPending : public Pending {
 public:
  FollowedPending(std::shared_ptr<GroupCalls> calls, GroupCalls::Ticket ticket,
                  std::shared_ptr<Pending> pending)
      : calls_(std::move(calls)), ticket_(ticket), pending_(std::move(pending)) {}

  bool is_completed() override { return pending_->is_completed() && see_end(); }

  std::optional<Error> error() override {
    const auto error = pending_->error();
    return error ? std::optional(calls_->fail(ticket_, *error)) : std::nullopt;
  }

  void wait() override {
    try {
      pending_->wait();
    } catch (const Error& error) {
      throw Error(calls_->fail(ticket_, error));
    }
    static_cast<void>(is_completed());
  }

  bool completes_until(steady_clock::time_point deadline) override {
    return pending_->completes_until(deadline) && see_end();
  }

  std::optional<std::chrono::nanoseconds> duration() override { return pending_->duration(); }

 private:
  bool see_end() {
    if (const auto error = pending_->error()) {
      calls_->fail(ticket_, *error);
    } else {
      calls_->succeed(ticket_);
    }
    return true;
  }

  std::shared_ptr<GroupCalls> calls_;
  GroupCalls::Ticket ticket_;
  std::shared_ptr<Pending> pending_;
};

FlightRecorder::Group describe(const Meeting& meeting, const std::string& backend) {
  std::vector<int> ranks = meeting.whole;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(meeting.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return {meeting.prefix, backend, meeting.rank, std::move(ranks)};
}

}  // namespace

GroupCalls::GroupCalls(Meeting meeting, const std::string& backend)
    : meeting_(std::move(meeting)), group_(recorder_.add(describe(meeting_, backend))) {}

GroupCalls::~GroupCalls() {
  recorder_.remove(group_);
}

Call GroupCalls::call_of(const Task& task) {
  Call call{.count = task.count, .operation = task.operation};
  call.type = static_cast<std::uint8_t>(task.type);
  call.reduce = static_cast<std::uint8_t>(task.reduce);
  call.root = meeting_.named(task.root);
  if (!is_point_to_point(task.operation)) {
    call.number = ++calls_;
    return call;
  }
  call.number = ++messages_;
  if (task.operation == Operation::batch_send_recv) {
    call.count = task.transfers.size();
    return call;
  }
  const Transfer& message = task.transfers.front();
  call.count = message.count;
  call.type = static_cast<std::uint8_t>(message.type);
  call.root = meeting_.named(message.peer);
  call.tag = message.tag;
  return call;
}

GroupCalls::Ticket GroupCalls::begin(const Task& task) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  return recorder_.begin(group_, call_of(task), steady_clock::now());
}

void GroupCalls::succeed(Ticket ticket) {
  recorder_.end(ticket, true, steady_clock::now());
}

Error GroupCalls::fail(Ticket ticket, const Error& error) {
  recorder_.end(ticket, false, steady_clock::now());
  return fail(error);
}

Error GroupCalls::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    failure_ = error;
  }
  write_trace_of_failure(meeting_.named(meeting_.rank), error.what());
  return error;
}

std::shared_ptr<Pending> GroupCalls::follow(Ticket ticket, std::shared_ptr<Pending> pending) {
  return std::make_shared<FollowedPending>(shared_from_this(), ticket, std::move(pending));
}

bool GroupCalls::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

}  // namespace ddp::internal
