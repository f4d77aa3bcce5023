// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/call/call.h"
#include "ddp/types.h"

namespace ddp::internal {

class DeviceEvent;

/// One message to or from another rank.
struct Transfer {
  bool sends = true;  ///< else receives
  int peer = 0;
  std::int32_t tag = 0;
  DataType type = DataType::float32;
  std::size_t count = 0;
  void* data = nullptr;  ///< only read where it sends
};

/// One call of this rank, checked by ProcessGroup: what every backend is asked to do. Blocks of
/// ranks lie one after the other, in the order of ranks.
struct Task {
  Operation operation = Operation::barrier;
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  int root = 0;
  std::size_t count = 0;   ///< elements of this rank's block, or of each block where all are equal
  bool on_device = false;  ///< whether `in` and `out` are in a GPU's memory
  CUstream_st* stream = nullptr;  ///< of the caller, where they are: runs before and after
  std::shared_ptr<DeviceEvent> ready = {};  ///< what the stream had before; for the backend's use
  const void* in = nullptr;                 ///< may be null where this rank gives nothing
  void* out = nullptr;  ///< may be null where this rank gets nothing; may be `in`, or its block
  std::vector<std::size_t> send_counts = {};  ///< of the blocks of `in`; empty: all are `count`
  std::vector<std::size_t> recv_counts = {};  ///< of the blocks of `out`; empty: all are `count`
  std::vector<Transfer> transfers = {};       ///< of calls between two ranks, and nothing else
};

}  // namespace ddp::internal
