// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <unistd.h>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"
#include "collectives/failure/failure_broadcast.h"
#include "collectives/failure/group_calls.h"
#include "collectives/group/task_maker.h"
#include "ddp/work.h"

namespace ddp::internal {

/// This process as a rank of a group: what a ProcessGroup holds. A call goes through three objects:
/// `make` checks the arguments and makes a Task, `calls` numbers it and has it recorded and
/// watched, `backend` does it.
struct GroupMember {
  const GroupContext context;
  const std::string backend_name;
  const std::chrono::system_clock::time_point formed = std::chrono::system_clock::now();
  const TaskMaker make;
  std::unique_ptr<Backend> backend;
  std::shared_ptr<GroupCalls> calls;
  int subgroup_count = 0;                             ///< made of this group so far
  int shrink_count = 0;                               ///< the same, by shrink()
  const int exceptions = std::uncaught_exceptions();  ///< under way when this was made
  const pid_t process = ::getpid();                   ///< that has joined

  /// Connects the ranks unless they are `connected`. A subgroup passes the broadcast of its parent.
  GroupMember(GroupContext group, std::string chosen_backend,
              std::shared_ptr<FailureBroadcast> broadcast = nullptr,
              std::unique_ptr<Backend> connected = nullptr);

  /// For ranks that are connected already and are all in this process.
  GroupMember(GroupContext group, std::string chosen_backend, std::unique_ptr<Backend> connected);

  /// Whether fork() has made this process since.
  bool is_of_parent() const { return ::getpid() != process; }

  /// Does the task, or begins it. Throws ddp::Error.
  void run(const Task& task);
  void run(const P2POp& op);
  Work begin(const Task& task);

  /// As ProcessGroup::set_timeout().
  void set_timeout(std::chrono::milliseconds timeout);

  /// As ProcessGroup::allocate().
  std::shared_ptr<void> allocate(std::size_t bytes);

  /// Breaks the group, for the reason `why`, and ends the calls under way.
  void abort(const std::string& why);

  /// The same for the reason "rank N WHY", which ranks whose calls fail by that find in the store.
  void give_up(const std::string& why);

  /// Waits for the other ranks in the background, and closes the connections then. After a failure,
  /// or during an exception that was thrown since this was made, aborts instead; so it does a
  /// second after the process began to exit with another code than 0. Nothing but the destructor
  /// may be called afterwards.
  void leave();

 private:
  bool run_now(const Task& task);
  std::string calls_under_way() const;
};

}  // namespace ddp::internal
