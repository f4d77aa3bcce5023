// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// MPI without its types. Every implementation of MPI has a binary interface of its own, so
/// what calls it is a library apart, libddp_mpi.so, built against the mpi.h of one of them and
/// loaded by libddp when a program asks for the mpi backend (mpi_process.h).
///
/// Failures of MPI are std::runtime_error with what it says of them. Thread: any, several at once.

/// Messages under way, in the order of the transfers they were made of.
class MpiRequests {
 public:
  /// Gives up what is not done. MPI may still read what it began to send, and write what it began
  /// to receive.
  virtual ~MpiRequests() = default;

  /// Whether all are done. Never blocks. One thread at a time.
  virtual bool test() = 0;

  /// The first that is not done, after test().
  virtual std::size_t first_open() const = 0;

  /// Bytes that came with a message that is done and does not send.
  virtual std::size_t received(std::size_t index) const = 0;
};

/// The ranks of one group, by their ranks in it. Messages do not meet those of other groups.
class MpiGroup {
 public:
  /// Frees nothing: other ranks may still need it.
  virtual ~MpiGroup() = default;

  /// Sends `bytes` of `out` to one rank and receives as many from another; the most is 1 KiB. While
  /// nothing comes, asks `goes_on` again and again. False: it said no. One thread at a time.
  virtual bool exchange(int to, const void* out, int from, void* in, std::size_t bytes,
                        const std::function<bool()>& goes_on) = 0;

  /// Does a task other than messages, with MPI's own function for it, and returns when this rank's
  /// part is done. Takes no 16-bit floats to combine, avg for sum, and no more elements than an int
  /// counts. One thread at a time.
  virtual void run(const Task& task) = 0;

  /// Begins messages.
  virtual std::unique_ptr<MpiRequests> begin(const std::vector<Transfer>& transfers) = 0;

  /// Frees it, the last call, once no rank needs it any more.
  virtual void free() noexcept = 0;
};

class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;

  struct World {
    int rank = 0;
    int size = 0;
    bool ours = false;  ///< it was this call that started MPI
  };

  /// Starts MPI, unless the program has. If the program ends it, `before_end` is called first, in
  /// the thread that does.
  virtual World start(void (*before_end)()) = 0;

  /// Whether MPI runs: it was started, and has not ended.
  virtual bool runs() noexcept = 0;

  /// Ends MPI.
  virtual void end() noexcept = 0;

  /// The group of these ranks of the world, who all call it with the same tag, from 0 to 32767:
  /// it keeps apart groups that are made at the same time.
  virtual std::unique_ptr<MpiGroup> make_group(std::span<const int> ranks, int tag) = 0;

  /// Whether it takes addresses of a GPU's memory (is CUDA-aware), as it says itself.
  virtual bool is_cuda_aware() noexcept = 0;

  /// Tags of messages are from ~greatest_tag(), which is below 0, to greatest_tag().
  virtual int greatest_tag() = 0;
};

/// What libddp_mpi.so shows: returns the one object of this process.
extern "C" MpiLibrary* ddp_mpi_library();

}  // namespace ddp::internal
