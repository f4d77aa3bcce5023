// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backend.h"
#include "collectives/flight_recorder.h"
#include "collectives/meeting.h"
#include "collectives/pending.h"
#include "ddp/error.h"

namespace ddp::internal {

/// What this rank calls in one group: numbers it, has it recorded, and keeps the first failure,
/// which every later call meets.
///
/// Calls of all ranks are numbered from 1, which is the same on all of them. Calls between two
/// ranks are counted apart, each rank its own.
///
/// Thread: any, several at once.
class GroupCalls : public std::enable_shared_from_this<GroupCalls> {
 public:
  using Ticket = FlightRecorder::Ticket;

  GroupCalls(Meeting meeting, const std::string& backend);
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;
  ~GroupCalls();

  /// A call begins. Throws the failure of the group.
  Ticket begin(const Task& task);

  /// It is over. What a call throws is the group's failure, which is returned: the first.
  void succeed(Ticket ticket);
  Error fail(Ticket ticket, const Error& error);

  /// As `pending`, and tells us when somebody sees it over.
  std::shared_ptr<Pending> follow(Ticket ticket, std::shared_ptr<Pending> pending);

  /// The group is broken by something else than a call. The failure it has then.
  Error fail(const Error& error);
  bool has_failed() const;

 private:
  Call call_of(const Task& task);

  const Meeting meeting_;
  FlightRecorder& recorder_ = FlightRecorder::of_process();
  const int group_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  std::uint64_t calls_ = 0;
  std::uint64_t messages_ = 0;
};

}  // namespace ddp::internal
