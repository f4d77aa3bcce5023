// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"
#include "collectives/failure/failure_broadcast.h"
#include "collectives/failure/group_calls.h"
#include "collectives/group/task_maker.h"
#include "ddp/process_group.h"

namespace ddp {

/// A call goes through three objects: `make` checks the arguments and makes a Task, `calls` numbers
/// it and has it recorded and watched, `backend` does it.
struct ProcessGroup::Impl {
  const internal::GroupContext context;
  const std::string backend_name;
  const internal::TaskMaker make;
  std::unique_ptr<internal::Backend> backend;
  std::shared_ptr<internal::GroupCalls> calls;
  int subgroup_count = 0;  ///< made of this group so far

  /// Connects the ranks. A subgroup passes the broadcast of its parent.
  Impl(internal::GroupContext group, std::string chosen_backend,
       std::shared_ptr<internal::FailureBroadcast> broadcast = nullptr);

  /// For ranks that are connected already and are all in this process.
  Impl(internal::GroupContext group, std::string chosen_backend,
       std::unique_ptr<internal::Backend> connected);

  /// Does the task, or begins it. Throws ddp::Error.
  void run(const internal::Task& task);
  Work begin(const internal::Task& task);

  /// Waits for the other ranks in the background, and closes the connections then. After a failure,
  /// or during an exception, aborts instead. Nothing but the destructor may be called afterwards.
  void leave();
};

}  // namespace ddp
