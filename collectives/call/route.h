// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/call/blocks.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Memory of one rank's data; nothing moves where it is empty.
struct Outgoing {
  const char* data = nullptr;
  std::size_t bytes = 0;
};
struct Incoming {
  char* data = nullptr;
  std::size_t bytes = 0;
};

/// Which data of a task that only moves some goes from this rank to which, and where it arrives.
/// The task must outlive it.
class Route {
 public:
  Route(const Task& task, int rank, int size);

  /// For this rank itself, too: both are the same data then.
  Outgoing to(int other) const;
  Incoming from(int other) const;

  std::size_t width() const { return width_; }

 private:
  Outgoing all_of_in() const;
  Incoming all_of_out() const;
  Outgoing in_block(int other) const;
  Incoming out_block(int other) const;

  const Task& task_;
  int rank_;
  std::size_t width_;
  Blocks in_;
  Blocks out_;
};

}  // namespace ddp::internal
