// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/call.h"

namespace ddp::internal {

std::string describe(const Call& call) {
  std::string text = "#" + std::to_string(call.number) + " " + name(call.operation);
  if (call.operation == Operation::barrier) return text;
  if (call.operation == Operation::batch_send_recv) {
    text += " of " + std::to_string(call.count) + " transfers";
    return call.root < 0 ? text : text + " with rank " + std::to_string(call.root);
  }
  if (reduces(call.operation)) {
    text += std::string(" ") + name(static_cast<ReduceOp>(call.reduce));
  }
  text += std::string(" ") + name(static_cast<DataType>(call.type));
  if (!is_unequal(call.operation)) text += "[" + std::to_string(call.count) + "]";
  if (!has_root(call.operation)) return text;
  text += is_from_root(call.operation) ? " from rank " : " to rank ";
  text += std::to_string(call.root);
  if (is_point_to_point(call.operation)) text += ", tag " + std::to_string(call.tag);
  return text;
}

const char* name(Operation operation) {
  switch (operation) {
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce:
      return "reduce";
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::gather:
      return "gather";
    case Operation::gather_v:
      return "gather_v";
    case Operation::all_gather:
      return "all_gather";
    case Operation::all_gather_v:
      return "all_gather_v";
    case Operation::scatter:
      return "scatter";
    case Operation::scatter_v:
      return "scatter_v";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::reduce_scatter_v:
      return "reduce_scatter_v";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::all_to_all_v:
      return "all_to_all_v";
    case Operation::barrier:
      return "barrier";
    case Operation::allocate:
      return "allocate";
    case Operation::send:
      return "send";
    case Operation::recv:
      return "recv";
    case Operation::batch_send_recv:
      return "batch_send_recv";
  }
  return "unknown operation";
}

const char* name(DataType type) {
  switch (type) {
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::int8:
      return "int8";
    case DataType::uint8:
      return "uint8";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
    case DataType::int16:
      return "int16";
    case DataType::uint16:
      return "uint16";
    case DataType::uint32:
      return "uint32";
    case DataType::uint64:
      return "uint64";
    case DataType::boolean:
      return "bool";
    case DataType::float8_e4m3:
      return "float8_e4m3";
    case DataType::float8_e5m2:
      return "float8_e5m2";
    case DataType::complex64:
      return "complex64";
    case DataType::complex128:
      return "complex128";
    case DataType::opaque:
      return "structs";
  }
  return "unknown type";
}

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::band:
      return "band";
    case ReduceOp::bor:
      return "bor";
    case ReduceOp::bxor:
      return "bxor";
  }
  return "unknown operation";
}

std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::boolean:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
    case DataType::opaque:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::int16:
    case DataType::uint16:
      return 2;
    case DataType::float32:
    case DataType::int32:
    case DataType::uint32:
      return 4;
    case DataType::complex128:
      return 16;
    case DataType::float64:
    case DataType::int64:
    case DataType::uint64:
    case DataType::complex64:
      break;
  }
  return 8;
}

bool has_root(Operation operation) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
    case Operation::gather_v:
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::send:
    case Operation::recv:
      return true;
    default:
      return false;
  }
}

bool is_from_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::scatter ||
         operation == Operation::scatter_v || operation == Operation::recv;
}

bool is_point_to_point(Operation operation) {
  return operation == Operation::send || operation == Operation::recv ||
         operation == Operation::batch_send_recv;
}

bool reduces(Operation operation) {
  switch (operation) {
    case Operation::reduce:
    case Operation::all_reduce:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      return true;
    default:
      return false;
  }
}

bool is_unequal(Operation operation) {
  switch (operation) {
    case Operation::gather_v:
    case Operation::all_gather_v:
    case Operation::scatter_v:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all_v:
      return true;
    default:
      return false;
  }
}

}  // namespace ddp::internal
