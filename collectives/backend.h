// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/call.h"
#include "collectives/pending.h"
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

/// What moves the data of a group of at least two ranks: one class, in files of its own, for each
/// library that can. Failures are ddp::Error; after one, nothing but the destructor is called.
///
/// Tasks are given to it by one thread at a time, in the same order on every rank.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Throws ddp::Error of kind usage for a task that this backend cannot do at all: buffers in
  /// memory it does not reach, for one. Such a task is not given to it. From any thread.
  virtual void check(const Task& task) const = 0;

  /// Does the task, after all that were begun before. Buffers in host memory: returns when this
  /// rank's part is done. On a device: returns at once, and the task's stream runs after it.
  virtual void run(const Task& task) = 0;

  /// Begins the task. Its failure is the Pending's.
  virtual std::shared_ptr<Pending> begin(const Task& task) = 0;

  /// From now on `failed` is told of a failure that the backend finds beside its calls' ends, in
  /// any thread, and aborts it. One that finds none, or needs no help to end, need not tell.
  virtual void watch(const std::function<void(const Error& error)>& /*failed*/) {}

  /// Makes whatever is under way fail soon, without a word to the others. From any thread, at any
  /// time.
  virtual void abort() noexcept = 0;

  /// Waits until every rank leaves too; the last call, if it is made at all. Does not throw: who
  /// leaves does not care how.
  virtual void leave() noexcept = 0;
};

}  // namespace ddp::internal
