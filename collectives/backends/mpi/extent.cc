// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/extent.h"

#include "collectives/call/blocks.h"
#include "collectives/call/call.h"

namespace ddp::internal {

Extent input_of(const Task& task, int rank, int size) {
  std::size_t elements = task.count;
  if (task.operation == Operation::broadcast && rank != task.root) elements = 0;
  if (traits_of(task.operation).in_blocks) {
    elements = Blocks(task.send_counts, task.count, task.in == nullptr ? 0 : size).total();
  }
  return {task.in, elements * size_of(task.type)};
}

Extent output_of(const Task& task, int rank, int size) {
  std::size_t elements = task.count;
  if (task.operation == Operation::broadcast && rank == task.root) elements = 0;
  if (traits_of(task.operation).out_blocks) {
    elements = Blocks(task.recv_counts, task.count, task.out == nullptr ? 0 : size).total();
  }
  return {task.out, elements * size_of(task.type)};
}

}  // namespace ddp::internal
