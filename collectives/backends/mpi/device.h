// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// MPI calls with buffers on a GPU. MPI knows no streams. So the host waits until the caller's
/// stream has come to the call, and then calls MPI. The caller gives the stream later work after
/// MPI has returned.
///
/// A CUDA-aware MPI gets the buffers themselves if no code here touches the data. Otherwise MPI
/// gets copies in host memory, whose memory is kept for later calls.
///
/// The GPU is that of choose_device() in the first call. CUDA's errors are thrown as
/// std::runtime_error, like MPI's. Call check_host_call() before all functions.
///
/// Thread: one collective task at a time; messages in any thread, several at once.
class MpiDevice {
 public:
  /// Copies in host memory that replace the buffers of messages. The destructor frees them.
  class StagedMessages {
   public:
    virtual ~StagedMessages() = default;

    /// Copies received data to the buffers on the GPU.
    virtual void copy_back() = 0;
  };

  explicit MpiDevice(bool mpi_is_cuda_aware);
  MpiDevice(const MpiDevice&) = delete;
  MpiDevice& operator=(const MpiDevice&) = delete;
  ~MpiDevice();

  /// Records the task's event `ready` in its stream. Call it first, in the thread of the call.
  void record_ready(Task& task);

  /// The bytes of each piece of a call that can be made in pieces. Pieces that are copied are
  /// small: one is copied while MPI moves another.
  std::size_t piece_bytes() const;

  /// Waits for `ready`, then lets `call` do the pieces of a task, or the same on copies of their
  /// buffers.
  void run(std::span<const Task> pieces, int rank, int size,
           const std::function<void(const Task&)>& call);

  /// Waits for `ready`, then replaces the buffers of the task's messages by copies. Returns null if
  /// MPI takes the buffers themselves.
  std::unique_ptr<StagedMessages> stage(Task& task);

 private:
  struct Gpu;
  class StagedCopies;

  const bool mpi_is_cuda_aware_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace ddp::internal
