// SPDX-License-Identifier: Apache-2.0
#include "collectives/call.h"

namespace ddp::internal {

std::string describe(const Call& call) {
  const std::string elements =
      std::string(name(static_cast<DataType>(call.type))) + "[" + std::to_string(call.count) + "]";
  const std::string start = "call " + std::to_string(call.number) + ", ";
  switch (call.operation) {
    case Operation::broadcast:
      return start + "broadcast " + elements + " from rank " + std::to_string(call.root);
    case Operation::all_reduce:
      return start + "all_reduce " + name(static_cast<ReduceOp>(call.reduce)) + " " + elements;
    case Operation::barrier:
      return start + "barrier";
    case Operation::leave:
      return start + "the group's end";
  }
  return start;
}

const char* name(DataType type) {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
  }
  return "unknown type";
}

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "unknown operation";
}

std::size_t size_of(DataType type) {
  return type == DataType::float32 || type == DataType::int32 ? 4 : 8;
}

}  // namespace ddp::internal
