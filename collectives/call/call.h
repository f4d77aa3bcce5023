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
  leave,
  send,
  recv,
  batch_send_recv,
};

/// One call as every rank must make it: equal on all ranks or the program is wrong. Between two
/// ranks alone each side tells its own. Sent as it lies in memory, so it has no padding.
struct Call {
  std::uint64_t number = 0;  ///< calls of this group so far
  std::uint64_t count = 0;   ///< elements of a rank; 0 where it differs between ranks
  std::int32_t root = 0;     ///< or the other rank, where there are two; -1: several
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
std::size_t size_of(DataType type);

bool has_root(Operation operation);

/// Of those that have a root: whether data comes from it, or goes to it.
bool is_from_root(Operation operation);
bool reduces(Operation operation);

/// Whether it is between two ranks and does not concern the others.
bool is_point_to_point(Operation operation);

/// Whether counts may differ between ranks.
bool is_unequal(Operation operation);

}  // namespace ddp::internal
