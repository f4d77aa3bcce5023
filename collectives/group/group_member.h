// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <unistd.h>

#include "collectives/agreement/group_context.h"
#include "collectives/backends/backend.h"
#include "collectives/failure/failure_broadcast.h"
#include "collectives/failure/group_calls.h"
#include "collectives/group/task_maker.h"
#include "ddp/work.h"

namespace ddp::internal {

/// This process as a rank of a group: the content of a ProcessGroup. A call goes through three
/// objects: `make` checks the arguments and makes a Task, `calls` numbers it and has it recorded
/// and watched, `backend` does it.
struct GroupMember {
  const GroupContext context;
  const std::string backend_name;
  const std::chrono::system_clock::time_point formed = std::chrono::system_clock::now();
  const TaskMaker make;
  std::unique_ptr<Backend> backend;
  std::shared_ptr<GroupCalls> calls;
  int subgroup_count = 0;                             ///< groups made of this one so far
  int shrink_count = 0;                               ///< the same, by shrink()
  const int exceptions = std::uncaught_exceptions();  ///< those under way when this was made
  const pid_t process = ::getpid();                   ///< the process that joined

  /// Connects the ranks unless they are `connected`. A subgroup passes the broadcast of its parent.
  GroupMember(GroupContext group, std::string chosen_backend,
              std::shared_ptr<FailureBroadcast> broadcast = nullptr,
              std::unique_ptr<Backend> connected = nullptr);

  /// The ranks are connected already, all in this process.
  GroupMember(GroupContext group, std::string chosen_backend, std::unique_ptr<Backend> connected);

  /// Whether this process is a fork of the one that joined.
  bool is_of_parent() const { return ::getpid() != process; }

  /// Does the task, or begins it. Throws ddp::Error.
  void run(const Task& task);
  void run(const P2POp& op);
  Work begin(const Task& task);

  /// See ProcessGroup::probe().
  int probe(int tag);

  /// See ProcessGroup::set_timeout().
  void set_timeout(std::chrono::milliseconds timeout);

  /// See ProcessGroup::allocate().
  std::shared_ptr<void> allocate(std::size_t bytes);

  /// Breaks the group, with `why` as the reason, and ends the calls under way.
  void abort(const std::string& why);

  /// The same with "rank N WHY" as the reason, which ranks whose calls fail by it read in the
  /// store.
  void give_up(const std::string& why);

  /// Finishes the calls that were begun in the background, says goodbye, then closes the
  /// connections. After a failure, during an exception that was thrown since this was made, or when
  /// the process exits with another code than 0, it aborts instead. Only the destructor may be
  /// called afterwards.
  void leave();

 private:
  bool run_now(const Task& task);
  Work work_of(GroupCalls::CallId call, std::shared_ptr<AsyncCall> async);
  std::string calls_under_way() const;
};

}  // namespace ddp::internal
