// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <ddp/distributed_data_parallel.h>
#include <functional>
#include <memory>
#include <vector>

#include "tests/collectives/ranks.h"

namespace ddp_tests {

/// Where parameters and gradients of the scenarios are.
class Memory {
 public:
  using Allocator = std::function<std::shared_ptr<void>(std::size_t bytes)>;

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// Zeros, for as long as this is.
  virtual ddp::Buffer make(std::size_t count, ddp::DataType type) = 0;

  /// For the buckets; empty where they need none.
  virtual Allocator allocator() = 0;

  /// Copies of all elements, made in their turn where they have a stream: `from` may go at once;
  /// `to` has them after settle().
  virtual void write(const ddp::Buffer& buffer, const void* from) = 0;
  virtual void read(const ddp::Buffer& buffer, void* to) = 0;
  virtual void settle() = 0;
};

inline std::size_t bytes_of(const ddp::Buffer& buffer) {
  return buffer.count * (buffer.type == ddp::DataType::float64 ? 8 : 4);
}

/// This program's: of the host, or of a device.
std::unique_ptr<Memory> make_memory();

/// Whether that many ranks have a memory each.
bool has_memory_for(int ranks);

/// The others' message about rank 1 when its process has ended: NCCL does not tell which rank it
/// lost.
const char* lost_rank_1();

/// The environment that a rank needs to have one.
ddprun::tests::Variables memory_variables();

}  // namespace ddp_tests
