// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ddp/types.h"

namespace ddp::internal {

enum class Operation : std::uint8_t { broadcast, all_reduce, barrier, leave };

/// One call as every rank must make it: equal on all ranks or the program is wrong. Sent between
/// ranks as it lies in memory, so it has no padding.
struct Call {
  std::uint64_t number = 0;  ///< calls of this group so far
  std::uint64_t count = 0;   ///< elements
  std::int32_t root = 0;
  Operation operation = Operation::barrier;
  std::uint8_t type = 0;    ///< a DataType
  std::uint8_t reduce = 0;  ///< a ReduceOp
  std::uint8_t unused = 0;

  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 24);

/// "call 12, all_reduce sum float32[100]".
std::string describe(const Call& call);

const char* name(DataType type);
const char* name(ReduceOp op);
std::size_t size_of(DataType type);

}  // namespace ddp::internal
