// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// An interface to MPI without the types of mpi.h. Every implementation of MPI has its own ABI. So
/// the code that calls MPI is in a plug-in, libddp_mpi.so, built against the mpi.h of one
/// implementation. libddp loads it when a program asks for backend mpi (process.h).
///
/// Errors of MPI are thrown as std::runtime_error with MPI's text. Thread: any, several at once.

/// Messages that were begun, in the order of their transfers.
class MpiRequests {
 public:
  /// Cancels incomplete messages. MPI may still read from buffers that it began to send, and write
  /// to buffers that it began to receive.
  virtual ~MpiRequests() = default;

  /// Whether all are complete. Never blocks. Thread: one at a time.
  virtual bool test() = 0;

  /// The index of the first incomplete message, after test().
  virtual std::size_t first_open() const = 0;

  /// The bytes of a received message.
  virtual std::size_t received(std::size_t index) const = 0;
};

/// The ranks of one group, numbered as in the group. It has its own communicators, so its messages
/// never match those of other groups.
class MpiGroup {
 public:
  /// Does not free the communicators: other ranks may still need them.
  virtual ~MpiGroup() = default;

  /// Sends `bytes` of `out`, at most 1 KiB, to one rank, and receives as many from another. While
  /// it waits, calls `goes_on` repeatedly; returns false when that does. Thread: one at a time.
  virtual bool exchange(int to, const void* out, int from, void* in, std::size_t bytes,
                        const std::function<bool()>& goes_on) = 0;

  /// Does a collective task with MPI's own function for it, and returns when this rank's part is
  /// done. Does not combine 16-bit floats, computes the sum for avg, and takes at most INT_MAX
  /// elements. Thread: one at a time.
  virtual void run(const Task& task) = 0;

  /// Begins messages.
  virtual std::unique_ptr<MpiRequests> begin(std::span<const Transfer> transfers) = 0;

  /// Frees the communicators, when no rank needs them any more. The last call.
  virtual void free() noexcept = 0;
};

class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;

  struct World {
    int rank = 0;
    int size = 0;
    bool ours = false;  ///< this call started MPI, not the program
  };

  /// Starts MPI unless the program has. If the program calls MPI_Finalize, `before_end` is called
  /// in its thread, before MPI ends.
  virtual World start(void (*before_end)()) = 0;

  /// Whether MPI was started and has not ended.
  virtual bool runs() noexcept = 0;

  /// Ends MPI.
  virtual void end() noexcept = 0;

  /// Makes the group of these ranks of MPI_COMM_WORLD. All of them call it with the same tag, 0 to
  /// 32767; it distinguishes groups that are made at the same time.
  virtual std::unique_ptr<MpiGroup> make_group(std::span<const int> ranks, int tag) = 0;

  /// Whether MPI says that it is CUDA-aware: takes addresses of a GPU's memory.
  virtual bool is_cuda_aware() noexcept = 0;

  /// The greatest tag of a message. The least is ~greatest_tag(), which is negative.
  virtual int greatest_tag() = 0;
};

/// The one symbol that libddp_mpi.so exports: returns the object of this process.
extern "C" MpiLibrary* ddp_mpi_library();

}  // namespace ddp::internal
