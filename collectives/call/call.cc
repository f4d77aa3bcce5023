// SPDX-License-Identifier: Apache-2.0
#include "collectives/call/call.h"

namespace ddp::internal {

namespace {

constexpr OperationTraits kTraits[] = {
    {.operation = Operation::broadcast,
     .name = "broadcast",
     .from = Holders::root,
     .to = Holders::all},
    {.operation = Operation::reduce,
     .name = "reduce",
     .from = Holders::all,
     .to = Holders::root,
     .reduces = true},
    {.operation = Operation::all_reduce,
     .name = "all_reduce",
     .from = Holders::all,
     .to = Holders::all,
     .reduces = true},
    {.operation = Operation::gather,
     .name = "gather",
     .from = Holders::all,
     .to = Holders::root,
     .out_blocks = true},
    {.operation = Operation::gather_v,
     .name = "gather_v",
     .from = Holders::all,
     .to = Holders::root,
     .out_blocks = true,
     .is_unequal = true},
    {.operation = Operation::all_gather,
     .name = "all_gather",
     .from = Holders::all,
     .to = Holders::all,
     .out_blocks = true},
    {.operation = Operation::all_gather_v,
     .name = "all_gather_v",
     .from = Holders::all,
     .to = Holders::all,
     .out_blocks = true,
     .is_unequal = true},
    {.operation = Operation::scatter,
     .name = "scatter",
     .from = Holders::root,
     .to = Holders::all,
     .in_blocks = true},
    {.operation = Operation::scatter_v,
     .name = "scatter_v",
     .from = Holders::root,
     .to = Holders::all,
     .in_blocks = true,
     .is_unequal = true},
    {.operation = Operation::reduce_scatter,
     .name = "reduce_scatter",
     .from = Holders::all,
     .to = Holders::all,
     .in_blocks = true,
     .reduces = true},
    {.operation = Operation::reduce_scatter_v,
     .name = "reduce_scatter_v",
     .from = Holders::all,
     .to = Holders::all,
     .in_blocks = true,
     .reduces = true,
     .is_unequal = true},
    {.operation = Operation::all_to_all,
     .name = "all_to_all",
     .from = Holders::all,
     .to = Holders::all,
     .in_blocks = true,
     .out_blocks = true},
    {.operation = Operation::all_to_all_v,
     .name = "all_to_all_v",
     .from = Holders::all,
     .to = Holders::all,
     .in_blocks = true,
     .out_blocks = true,
     .is_unequal = true},
    {.operation = Operation::barrier, .name = "barrier"},
    {.operation = Operation::allocate, .name = "allocate"},
    {.operation = Operation::send,
     .name = "send",
     .from = Holders::all,
     .to = Holders::root,
     .is_point_to_point = true},
    {.operation = Operation::recv,
     .name = "recv",
     .from = Holders::root,
     .to = Holders::all,
     .is_point_to_point = true},
    {.operation = Operation::batch_send_recv, .name = "batch_send_recv", .is_point_to_point = true},
};

constexpr bool is_in_order() {
  std::size_t at = 0;
  for (const OperationTraits& traits : kTraits) {
    if (static_cast<std::size_t>(traits.operation) != at++) return false;
  }
  return at == static_cast<std::size_t>(kLastOperation) + 1;
}
static_assert(is_in_order());

}  // namespace

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

const OperationTraits& traits_of(Operation operation) {
  static constexpr OperationTraits kUnknown = {.operation = {}, .name = "unknown operation"};
  return operation <= kLastOperation ? kTraits[static_cast<std::size_t>(operation)] : kUnknown;
}

const char* name(Operation operation) {
  return traits_of(operation).name;
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
  const OperationTraits& traits = traits_of(operation);
  return traits.from == Holders::root || traits.to == Holders::root;
}

bool is_from_root(Operation operation) {
  return traits_of(operation).from == Holders::root;
}

bool is_point_to_point(Operation operation) {
  return traits_of(operation).is_point_to_point;
}

bool reduces(Operation operation) {
  return traits_of(operation).reduces;
}

bool is_unequal(Operation operation) {
  return traits_of(operation).is_unequal;
}

}  // namespace ddp::internal
