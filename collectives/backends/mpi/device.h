// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Calls of MPI with buffers on a GPU. MPI knows no streams, so the host waits until the caller's
/// has come to the call, and the stream may go on when MPI has returned.
///
/// A CUDA-aware MPI is given the buffers themselves, where it alone touches the data. Otherwise it
/// is given copies in host memory.
///
/// The GPU is that of choose_device() in the first call. What CUDA does not do is a
/// std::runtime_error with its words, as MPI's failures are.
///
/// Thread: one task of all ranks at a time; messages from any, several at once.
class MpiDevice {
 public:
  /// Messages whose data is copied.
  class Lent {
   public:
    virtual ~Lent() = default;

    /// Copies what was received to where it belongs.
    virtual void bring_home() = 0;
  };

  explicit MpiDevice(bool mpi_is_cuda_aware);
  MpiDevice(const MpiDevice&) = delete;
  MpiDevice& operator=(const MpiDevice&) = delete;
  ~MpiDevice();

  /// Sets the task's `ready`. In the thread that makes the call, before anything else.
  void mark(Task& task);

  /// Has `call` do the marked task, or the same with copies of its buffers.
  void run(const Task& task, int rank, int size, const std::function<void(const Task&)>& call);

  /// Waits for a marked task's stream, and puts copies in the place of its messages' data, unless
  /// MPI takes that itself: then null.
  std::unique_ptr<Lent> lend(Task& task);

 private:
  struct Gpu;
  class LentCopies;

  const bool mpi_is_cuda_aware_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace ddp::internal
