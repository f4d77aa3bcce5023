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

/// The memory of the scenarios' parameters and gradients.
class Memory {
 public:
  using Allocator = std::function<std::shared_ptr<void>(std::size_t bytes)>;

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// Returns zeros that live as long as this object.
  virtual ddp::Buffer make(std::size_t count, ddp::DataType type) = 0;

  /// The allocator of buckets; empty if they need none.
  virtual Allocator allocator() = 0;

  /// Copies all elements, in stream order if there are streams. `from` may be freed at once; `to`
  /// has the elements after settle().
  virtual void write(const ddp::Buffer& buffer, const void* from) = 0;
  virtual void read(const ddp::Buffer& buffer, void* to) = 0;
  virtual void settle() = 0;
};

inline std::size_t bytes_of(const ddp::Buffer& buffer) {
  return buffer.count * (buffer.type == ddp::DataType::float64 ? 8 : 4);
}

/// The memory of this program: of the host, or of a device.
std::unique_ptr<Memory> make_memory();

/// Whether there is a memory for each of so many ranks.
bool has_memory_for(int ranks);

/// The other ranks' message when rank 1's process has ended. NCCL does not say which rank it lost.
const char* lost_rank_1();

/// The environment that a rank needs for its memory.
ddprun::tests::Variables memory_variables();

}  // namespace ddp_tests
