// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/call/blocks.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// The data that this rank sends to another, or receives from it; may be empty.
struct Outgoing {
  const char* data = nullptr;
  std::size_t bytes = 0;
};
struct Incoming {
  char* data = nullptr;
  std::size_t bytes = 0;
};

/// The data that this rank sends to and receives from each rank, in tasks that combine none. The
/// task must outlive it.
class Route {
 public:
  Route(const Task& task, int rank, int size);

  /// Both are the same data if `other` is this rank itself.
  Outgoing to(int other) const;
  Incoming from(int other) const;

  /// Bytes of an element.
  std::size_t width() const { return width_; }

 private:
  Outgoing all_of_in() const;
  Incoming all_of_out() const;
  Outgoing in_block(int other) const;
  Incoming out_block(int other) const;

  bool moves(int from, int to) const;

  const Task& task_;
  const OperationTraits& traits_;
  int rank_;
  std::size_t width_;
  Blocks in_;
  Blocks out_;
};

/// Copies what a rank sends to itself, if that is not in place.
void copy_own(const Route& route, int rank);

}  // namespace ddp::internal
