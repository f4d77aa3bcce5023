// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>

#include "collectives/agreement/group_context.h"
#include "collectives/call/async_call.h"
#include "collectives/call/task.h"
#include "collectives/failure/flight_recorder.h"
#include "collectives/failure/published_calls.h"
#include "ddp/error.h"

namespace ddp::internal {

/// A call that took longer than its limit.
struct TimedOutCall {
  Call call;
  std::chrono::milliseconds limit;
};

/// The calls of one group that are under way on this rank. Numbers and records them, and finds
/// those that timed out.
///
/// Collective calls are numbered from 1, so they have the same numbers on all ranks, and are done
/// in that order. The time of one begins when those before it have ended. Each rank numbers calls
/// between two ranks separately, and their time begins at once.
///
/// Reads no clock. Thread: one at a time, unless said otherwise.
class OpenCalls {
 public:
  using CallId = FlightRecorder::CallId;
  using Time = FlightRecorder::Time;

  /// `context` must outlive this.
  OpenCalls(const GroupContext& context, const std::string& backend_name);
  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;
  ~OpenCalls();

  CallId begin(const Task& task, std::chrono::milliseconds limit, Time now);

  /// Records a collective call that has succeeded.
  void record(const Task& task, Time now);

  /// Records a message by itself, which ends as it begins. Thread: any.
  void record(const Transfer& message, Time now);

  /// The call continues after the function that began it; close_completed() notices its end.
  void set_async(CallId id, const std::shared_ptr<AsyncCall>& async);

  /// Does nothing for a call that was closed before.
  void close(CallId id, bool succeeded, Time now);

  /// Closes asynchronous calls that have ended. Returns the error of the first that failed.
  std::optional<Error> close_completed(Time now);

  /// When a call may time out, or close_completed() should be called. Time::max() if no call is
  /// under way.
  Time next_check(Time now) const;

  std::optional<TimedOutCall> find_timed_out(Time now) const;

  bool empty() const { return collectives_.empty() && messages_.empty(); }

  /// The call that this rank is in, as "in #12 barrier"; empty if there is none.
  std::string current() const;

  /// This rank's status, see call_status.h.
  std::string status() const;
  /// The status in the collective call of this number, if that was made and is remembered.
  std::string status_in(std::uint64_t number) const;

 private:
  struct OpenCall {
    CallId id;
    Call call;
    std::chrono::milliseconds limit;
    Time since;
    std::shared_ptr<AsyncCall> async;  ///< null: a thread is blocked in it
  };
  using Queue = std::pmr::deque<OpenCall>;

  Call call_of(const Task& task);
  Call call_of(const Transfer& message);
  void close_succeeded(Time now);
  Queue::iterator close(Queue& queue, const Queue::iterator& open, bool succeeded, Time now);
  const OpenCall* first() const;
  void publish() noexcept;

  const GroupContext& context_;
  FlightRecorder& recorder_ = FlightRecorder::of_process();
  const int group_;  // its number in the recorder
  std::uint64_t collective_count_ = 0;
  std::atomic<std::uint64_t> message_count_ = 0;
  std::optional<Call> last_;  // the last collective call that succeeded
  PublishedCalls published_;
  std::pmr::unsynchronized_pool_resource memory_;
  Queue collectives_{&memory_};
  Queue messages_{&memory_};  // between two ranks
};

}  // namespace ddp::internal
