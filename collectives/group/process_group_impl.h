// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collectives/backends/backend.h"
#include "collectives/failure/failure_broadcast.h"
#include "collectives/failure/group_calls.h"
#include "collectives/group/init.h"
#include "collectives/group/task_maker.h"
#include "ddp/process_group.h"

namespace ddp {

struct ProcessGroup::Impl {
  internal::Rendezvous met;
  std::string backend_name;
  std::vector<int> whole;  ///< by rank, its rank among all that ever met; empty: the same
  std::unique_ptr<internal::Backend> backend;
  std::shared_ptr<internal::GroupCalls> calls;
  int parts = 0;  ///< made of this group so far

  /// Connects the ranks. `broadcast` is that of the group it is a part of, if any.
  Impl(internal::Rendezvous rendezvous, std::chrono::milliseconds limit, std::string chosen,
       std::vector<int> names, std::shared_ptr<internal::FailureBroadcast> broadcast);

  /// Of ranks that are connected, all in this process.
  Impl(internal::Rendezvous rendezvous, std::chrono::milliseconds limit, std::string chosen,
       std::unique_ptr<internal::Backend> connected);

  internal::TaskMaker make() const { return {met.place.rank, met.place.size}; }
  void run(const internal::Task& task);
  Work begin(const internal::Task& task);
};

}  // namespace ddp
