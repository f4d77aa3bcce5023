// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/group_member.h"

#include <chrono>
#include <cstddef>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/rank_status.h"
#include "collectives/background.h"
#include "collectives/failure/abort_limit.h"
#include "collectives/failure/watchdog.h"
#include "collectives/group/host_memory.h"
#include "collectives/group/make_backend.h"

namespace ddp::internal {
namespace {

/// How often rank 0, which serves the store, looks whether it may end before the others do.
constexpr std::chrono::milliseconds kLook{200};

std::shared_ptr<FailureBroadcast> make_broadcast(const GroupContext& context,
                                                 const std::weak_ptr<Watchdog>& watchdog) {
  auto on_failure = [context, watchdog](const std::string& group) {
    if (const auto alive = watchdog.lock()) alive->on_broadcast(context, group);
  };
  auto on_loss = [watchdog](int lost, const std::string& sentence) {
    if (const auto alive = watchdog.lock()) alive->on_loss(lost, sentence);
  };
  FailureBroadcast::Events events{std::move(on_failure), std::move(on_loss)};
  return std::make_shared<FailureBroadcast>(context.store, context.prefix, context.rank,
                                            context.size, std::move(events));
}

/// The store ends with this process: waits until every rank has left the group or is about to end.
void serve(const GroupContext& context, const GroupCalls& calls) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < context.size; ++rank) keys.push_back(left_key(context, rank));
  const auto end = std::chrono::steady_clock::now() + calls.limit();
  while (!calls.has_failed() && !is_given_up() && std::chrono::steady_clock::now() < end) {
    try {
      return context.store->wait(keys, kLook);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timed_out) return;
    }
  }
}

}  // namespace

GroupMember::GroupMember(GroupContext group, std::string chosen_backend,
                         std::shared_ptr<FailureBroadcast> broadcast,
                         std::unique_ptr<Backend> connected)
    : context(std::move(group)),
      backend_name(std::move(chosen_backend)),
      make(context.rank, context.size, context.named(context.rank)),
      backend(connected ? std::move(connected) : make_backend(backend_name, context)),
      calls(std::make_shared<GroupCalls>(context, backend_name)) {
  if (context.size == 1) return;
  auto watchdog = Watchdog::of_process();
  if (!broadcast) broadcast = make_broadcast(context, watchdog);
  calls->begin_watch(*backend, std::move(watchdog), std::move(broadcast));
}

GroupMember::GroupMember(GroupContext group, std::string chosen_backend,
                         std::unique_ptr<Backend> connected)
    : context(std::move(group)),
      backend_name(std::move(chosen_backend)),
      make(context.rank, context.size, context.named(context.rank)),
      backend(std::move(connected)),
      calls(std::make_shared<GroupCalls>(context, backend_name)) {
  if (context.size > 1) calls->begin_watch(*backend, Watchdog::of_process(), nullptr);
}

void GroupMember::run(const Task& task) {
  backend->check(task);
  if (task.on_device) {  // the call is under way when this returns
    const auto call = calls->begin(task);
    return work_of(call, backend->begin_in_stream(task)).wait();
  }
  if (run_now(task)) return;
  const auto call = calls->begin(task);
  try {
    backend->run(task);
  } catch (const Error& error) {
    throw Error(calls->fail(call, error));
  }
  calls->succeed(call);
}

/// Records a call that waits for nobody when it has ended: there is nothing to watch.
bool GroupMember::run_now(const Task& task) {
  try {
    if (!backend->run_now(task)) return false;
  } catch (const Error& error) {
    throw Error(calls->fail(calls->begin(task), error));
  }
  calls->record(task);
  return true;
}

/// Reads the clock where nobody waits for it: before a receive, and after a send.
void GroupMember::run(const P2POp& op) {
  if (!op.buffer.on_device) {
    using Clock = std::chrono::steady_clock;
    const Transfer message = make.message(op);
    const auto before = message.sends ? Clock::time_point() : Clock::now();
    if (backend->run_now(message)) {
      return calls->record(message, message.sends ? Clock::now() : before);
    }
  }
  run(op.sends ? make.send(op.buffer, op.peer, op.tag) : make.recv(op.buffer, op.peer, op.tag));
}

Work GroupMember::begin(const Task& task) {
  backend->check(task);
  const auto call = calls->begin(task);
  return work_of(call, backend->begin(task));
}

Work GroupMember::work_of(GroupCalls::CallId call, std::shared_ptr<AsyncCall> async) {
  calls->set_async(call, async);
  return Work(std::move(async), calls, call);
}

int GroupMember::probe(int tag) {
  const auto limit = calls->limit();
  std::optional<int> sender;
  try {
    sender = backend->probe(tag);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    static_cast<void>(calls->fail(error));
    calls->throw_failure();
  }
  if (sender) return *sender;
  throw own_error(context, ErrorKind::timed_out,
                  " timed out after " + name_time(limit) +
                      " waiting for a message of any rank, tag " + std::to_string(tag));
}

void GroupMember::set_timeout(std::chrono::milliseconds timeout) {
  calls->set_limit(timeout);
  backend->set_timeout(calls->limit());  // within bounds
}

std::shared_ptr<void> GroupMember::allocate(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
    throw own_error(
        context, ErrorKind::usage,
        ": allocate of " + std::to_string(bytes) + " bytes, which is more than memory holds");
  }
  const Task task = {.operation = Operation::allocate,
                     .type = DataType::uint8,
                     .count = bytes,
                     .on_device = backend_name == "nccl"};
  backend->check(task);
  const auto call = calls->begin(task);
  std::shared_ptr<void> memory;
  try {
    memory = backend->allocate(task);
  } catch (const Error& error) {
    throw Error(calls->fail(call, error));
  }
  calls->succeed(call);
  if (memory || task.on_device) return memory;
  try {
    return allocate_on_host(bytes);
  } catch (const std::bad_alloc&) {
    throw own_error(context, ErrorKind::system,
                    " has no memory left for allocate of " + std::to_string(bytes) + " bytes");
  }
}

void GroupMember::abort(const std::string& why) {
  calls->fail(Error(ErrorKind::system,
                    "ddp: rank " + std::to_string(context.named(context.rank)) + ": " + why));
  backend->abort();
}

void GroupMember::give_up(const std::string& why) {
  const AbortLimit limit(calls_under_way(), calls->limit());
  const int own = context.named(context.rank);
  AgreedError agreed = {
      ErrorKind::system, "rank " + std::to_string(own) + " " + why, {.rank = own}};
  try {
    agreed = propose_error(context, agreed);
  } catch (const Error&) {
    // The store is lost: the others notice that connections end.
  }
  calls->fail(to_error(context, "", agreed));
  backend->abort();
}

std::string GroupMember::calls_under_way() const {
  return "ddp: rank " + std::to_string(context.named(context.rank)) + ": calls under way";
}

void GroupMember::leave() {
  if (calls->has_failed() || std::uncaught_exceptions() > exceptions || is_given_up()) {
    std::optional<AbortLimit> limit;
    if (!calls->has_failed() || context.size == 1) {  // else the watchdog has one
      limit.emplace(calls_under_way(), calls->limit());
    }
    backend->abort();
    calls->end_watch();
    return;
  }
  if (context.size == 1) return;
  std::shared_ptr<Backend> kept = std::move(backend);
  auto finish = [context = context, left = kept, calls = calls]() mutable {
    left->leave();
    if (context.rank_0_serves && context.whole.empty() && context.rank == 0) serve(context, *calls);
    calls->end_watch();
    left.reset();
  };
  auto give_up = [left = std::weak_ptr<Backend>(kept), text = calls_under_way(),
                  timeout = calls->limit()] {
    const auto alive = left.lock();
    if (!alive) return;
    const AbortLimit limit(text, timeout);
    alive->abort();
  };
  run_in_background(std::move(finish), [] {}, std::move(give_up));
}

}  // namespace ddp::internal
