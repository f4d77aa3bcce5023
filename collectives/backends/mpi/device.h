// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// MPI calls with buffers on a GPU. MPI knows no streams. So the host waits until the caller's
/// stream has come to the call, and calls MPI then; what the stream is given later is given after
/// MPI has returned.
///
/// A CUDA-aware MPI gets the buffers themselves if no code here touches the data. Otherwise MPI
/// gets copies in host memory, which are kept for later calls.
///
/// The GPU is that of choose_device() in the first call. CUDA's errors are thrown as
/// std::runtime_error, like MPI's. check_host_call() comes before all.
///
/// Thread: one collective task at a time; messages in any thread, several at once.
class MpiDevice {
 public:
  /// Copies in host memory that stand for the buffers of messages. The destructor frees them.
  class StagedMessages {
   public:
    virtual ~StagedMessages() = default;

    /// Copies what was received to the buffers on the GPU.
    virtual void copy_back() = 0;
  };

  explicit MpiDevice(bool mpi_is_cuda_aware);
  MpiDevice(const MpiDevice&) = delete;
  MpiDevice& operator=(const MpiDevice&) = delete;
  ~MpiDevice();

  /// Records the task's event `ready` in its stream. To be called first, in the thread of the call.
  void record_ready(Task& task);

  /// Of a call that can be made in pieces: the bytes of each. Small ones if they are copied: those
  /// of one are made while MPI moves another.
  std::size_t piece_bytes() const;

  /// Waits for `ready`, then has `call` do the pieces of a task, or the same on copies of their
  /// buffers.
  void run(std::span<const Task> pieces, int rank, int size,
           const std::function<void(const Task&)>& call);

  /// Waits for `ready`, then replaces the buffers of the task's messages by copies. Null if MPI
  /// takes the buffers themselves.
  std::unique_ptr<StagedMessages> stage(Task& task);

 private:
  struct Gpu;
  class StagedCopies;

  const bool mpi_is_cuda_aware_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace ddp::internal
