// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/parts.h"

namespace ddp::internal {

Parts parts_of(DataType type, std::size_t width) {
  if (type == DataType::complex64) return {DataType::float32, 2};
  if (type == DataType::complex128) return {DataType::float64, 2};
  if (type == DataType::opaque) return {DataType::uint8, width};
  return {type, 1};
}

Task in_parts(Task task, const Parts& parts) {
  task.type = parts.type;
  task.count *= parts.count;
  for (std::size_t& count : task.send_counts) count *= parts.count;
  for (std::size_t& count : task.recv_counts) count *= parts.count;
  return task;
}

Buffer in_parts(Buffer buffer) {
  const Parts parts = parts_of(buffer.type, buffer.width);
  buffer.type = parts.type;
  buffer.count *= parts.count;
  buffer.width = 0;
  return buffer;
}

}  // namespace ddp::internal
