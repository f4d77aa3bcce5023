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

std::uint32_t fingerprint(const Call& call) {
  std::uint64_t mixed = call.number;
  for (std::uint64_t part :
       {call.count, std::uint64_t(std::uint32_t(call.root)) << 32 |
                        std::uint64_t(call.operation) << 16 | std::uint64_t(call.type) << 8 |
                        std::uint64_t(call.reduce)}) {
    mixed = (mixed ^ part) * 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads low bits upwards
    mixed ^= mixed >> 32;
  }
  return static_cast<std::uint32_t>(mixed);
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
