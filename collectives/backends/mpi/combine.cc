// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/combine.h"

#include <cstddef>
#include <span>

#include "collectives/call/blocks.h"
#include "collectives/call/parts.h"
#include "collectives/call/reduction.h"

namespace ddp::internal {
namespace {

bool is_narrow_float(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16 || type == DataType::float8_e4m3 ||
         type == DataType::float8_e5m2;
}

template <class T>
void divide(void* data, std::size_t count, int ranks) {
  const T by = static_cast<T>(ranks);
  for (T& each : std::span(static_cast<T*>(data), count)) each /= by;
}

}  // namespace

void MpiCombine::run(MpiGroup& group, const Task& task, int rank, int size) {
  if (is_narrow_float(task.type)) return run_wide(group, task, size);
  group.run(task);
  if (task.reduce != ReduceOp::avg) return;
  if (task.operation == Operation::reduce && rank != task.root) return;
  const Task parts = in_parts(task, parts_of(task.type));
  parts.type == DataType::float32 ? divide<float>(parts.out, parts.count, size)
                                  : divide<double>(parts.out, parts.count, size);
}

void MpiCombine::run_wide(MpiGroup& group, const Task& task, int size) {
  const Reduction reduction = internal::reduction(task.type, task.reduce);
  const bool scatters =
      task.operation == Operation::reduce_scatter || task.operation == Operation::reduce_scatter_v;
  const std::size_t elements =
      scatters ? Blocks(task.send_counts, task.count, size).total() : task.count;
  wide_in_.resize(elements);
  reduction.load(wide_in_.data(), task.in, elements);
  Task wide = task;
  wide.type = DataType::float32;
  wide.in = wide_in_.data();
  if (scatters) {
    wide_out_.resize(task.count);
    wide.out = wide_out_.data();
  } else if (task.out != nullptr) {
    wide.out = wide_in_.data();
  }
  group.run(wide);
  if (task.out != nullptr) reduction.store(task.out, wide.out, task.count, size);
}

}  // namespace ddp::internal
