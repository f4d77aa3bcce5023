// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <boost/container/small_vector.hpp>

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
  void* data = nullptr;  ///< only read if it sends
};

/// One takes no memory of its own.
using Transfers = boost::container::small_vector<Transfer, 1>;

/// One call of this rank, as a backend does it, with checked arguments. Blocks are in the order of
/// ranks.
struct Task {
  Operation operation = Operation::barrier;
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  int root = 0;
  std::size_t count = 0;   ///< elements of this rank's block, or of each block if all are equal
  bool on_device = false;  ///< whether `in` and `out` are in a GPU's memory
  CUstream_st* stream = nullptr;            ///< the caller's, if on_device: runs before and after
  std::shared_ptr<DeviceEvent> ready = {};  ///< the stream's earlier work; set by the backend
  const void* in = nullptr;                 ///< may be null if this rank sends nothing
  void* out = nullptr;  ///< may be null if this rank receives nothing; may be `in`, or its block
  std::vector<std::size_t> send_counts = {};  ///< of the blocks of `in`; empty: all are `count`
  std::vector<std::size_t> recv_counts = {};  ///< of the blocks of `out`; empty: all are `count`
  Transfers transfers = {};  ///< of calls between two ranks, which have nothing else
};

}  // namespace ddp::internal
