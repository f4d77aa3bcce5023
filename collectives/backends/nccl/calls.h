// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "collectives/backends/backend.h"
#include "collectives/backends/cuda/bitwise.h"
#include "collectives/backends/nccl/communicator.h"

namespace ddp::internal {

/// What a task takes of NCCL's own calls. Some are one of them: broadcast, reduce, all_reduce,
/// all_gather, reduce_scatter. The rest are composed:
///   gather, scatter, all_to_all, every _v but one, send, recv, batch_send_recv
///                             ncclSend and ncclRecv of every block, started together; a rank's own
///                             block is copied
///   reduce_scatter_v          one ncclReduce for each rank, started together
///   band, bor, bxor           shares by ncclSend and ncclRecv, a kernel of ours, and the shares
///                             collected again: NCCL has none of them
class NcclCalls {
 public:
  explicit NcclCalls(NcclCommunicator& communicator)
      : communicator_(communicator), bitwise_(communicator.device()) {}

  /// Puts the task into the communicator's stream, whose device is current.
  void enqueue(const Task& task, const std::string& where);

  /// Whether the task takes several steps, of which the later need the earlier to be started: not
  /// so in a group of calls.
  static bool has_steps(const Task& task);

 private:
  void reduce_scatter_v(const Task& task, const std::string& where);
  void move(const Task& task, const std::string& where);
  void transfer(const Task& task, const std::string& where);
  void combine_bits(const Task& task, const std::string& where);
  void copy(void* to, const void* from, std::size_t bytes) const;

  NcclCommunicator& communicator_;
  BitwiseKernels bitwise_;
};

}  // namespace ddp::internal
