// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ddp/types.h"

namespace ddp::internal {

enum class Operation : std::uint8_t {
  broadcast,
  reduce,
  all_reduce,
  gather,
  gather_v,
  all_gather,
  all_gather_v,
  scatter,
  scatter_v,
  reduce_scatter,
  reduce_scatter_v,
  all_to_all,
  all_to_all_v,
  barrier,
  allocate,
  send,
  recv,
  batch_send_recv,
};

/// The last operation.
inline constexpr Operation kLastOperation = Operation::batch_send_recv;

/// The ranks that have the data of a call before it, or after it.
enum class Holders : std::uint8_t { none, root, all };

/// The properties of an operation. The table of all operations is in call.cc. A switch over
/// operations has no `default:`, so the compiler names those that lack a new one.
struct OperationTraits {
  Operation operation;
  const char* name;
  Holders from = Holders::none;  ///< of a message: the sender is the root of recv
  Holders to = Holders::none;
  bool in_blocks = false;   ///< the input has a block for each rank
  bool out_blocks = false;  ///< the output does
  bool reduces = false;
  bool is_unequal = false;         ///< counts may differ between ranks
  bool is_point_to_point = false;  ///< only two ranks take part
};
const OperationTraits& traits_of(Operation operation);

/// A description of one call, which ranks compare: a collective call must be equal on all ranks.
/// The two sides of a message each have their own. Sent as it lies in memory, so it has no padding.
struct Call {
  std::uint64_t number = 0;  ///< in the group, from 1
  std::uint64_t count = 0;   ///< elements of a rank; 0 if ranks may differ
  std::int32_t root = 0;     ///< or the other rank of a message; -1: several
  std::int32_t tag = 0;
  Operation operation = Operation::barrier;
  std::uint8_t type = 0;    ///< a DataType
  std::uint8_t reduce = 0;  ///< a ReduceOp
  std::uint8_t unused[5] = {};

  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 32);

/// "#12 all_reduce sum float32[100]".
std::string describe(const Call& call);

/// "all_reduce".
const char* name(Operation operation);
const char* name(DataType type);
const char* name(ReduceOp op);

/// Bytes of an element; not of DataType::opaque.
std::size_t size_of(DataType type);

/// The last DataType that a call can have. A call with structs has uint8.
inline constexpr DataType kLastType = DataType::complex128;

bool has_root(Operation operation);

/// Whether data comes from the root; otherwise it goes to the root. Only for operations with a
/// root.
bool is_from_root(Operation operation);
bool reduces(Operation operation);

/// Whether only two ranks take part.
bool is_point_to_point(Operation operation);

/// Whether counts may differ between ranks.
bool is_unequal(Operation operation);

}  // namespace ddp::internal
