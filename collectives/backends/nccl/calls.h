// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "collectives/backends/backend.h"
#include "collectives/backends/nccl/communicator.h"

namespace ddp::internal {

/// Does tasks with NCCL's functions. NCCL has one for each of broadcast, reduce, all_reduce,
/// all_gather and reduce_scatter. The others are composed:
///   gather, scatter, all_to_all, every _v but one, send, recv, batch_send_recv
///                             ncclSend and ncclRecv of every block, started together; a rank's own
///                             block is copied
///   all_reduce avg            ncclAllReduce of floats with an operation that multiplies before the
///                             sum: NCCL 2.30.7 begins an ncclAvg in windows with a kernel that it
///                             does not have ("invalid device function")
///   reduce_scatter_v          one ncclReduce for each rank, started together
class NcclCalls {
 public:
  explicit NcclCalls(NcclCommunicator& communicator) : communicator_(communicator) {}

  /// Puts the task into a stream of the communicator's device, which must be current.
  void enqueue(const Task& task, const std::string& where, CUstream stream);

  /// Whether the task takes several launches, each of which must be in the stream before the next.
  /// Such a task cannot be in a group, as a group starts all calls at its end.
  static bool has_steps(const Task& task);

  /// Says why NCCL cannot combine elements of the task's type as it asks; null if it can.
  static const char* find_obstacle(const Task& task);

 private:
  void average(const Task& task, const std::string& where, CUstream stream);
  void reduce_scatter_v(const Task& task, const std::string& where, CUstream stream);
  void move(const Task& task, const std::string& where, CUstream stream);
  void transfer(const Task& task, const std::string& where, CUstream stream);

  NcclCommunicator& communicator_;
};

}  // namespace ddp::internal
