// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/extent.h"

#include "collectives/call/blocks.h"
#include "collectives/call/call.h"

namespace ddp::internal {

Extent input_of(const Task& task, int rank, int size) {
  std::size_t elements = task.count;
  switch (task.operation) {
    case Operation::broadcast:
      if (rank != task.root) elements = 0;
      break;
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      elements = Blocks(task.send_counts, task.count, task.in == nullptr ? 0 : size).total();
      break;
    default:
      break;
  }
  return {task.in, elements * size_of(task.type)};
}

Extent output_of(const Task& task, int rank, int size) {
  std::size_t elements = task.count;
  switch (task.operation) {
    case Operation::broadcast:
      if (rank == task.root) elements = 0;
      break;
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      elements = Blocks(task.recv_counts, task.count, task.out == nullptr ? 0 : size).total();
      break;
    default:
      break;
  }
  return {task.out, elements * size_of(task.type)};
}

}  // namespace ddp::internal
