// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "collectives/backend.h"
#include "collectives/blocks.h"
#include "collectives/gloo_backend_turns.h"

namespace ddp::internal {

/// Which data of a task that only moves some goes from this rank to which, and where it arrives.
/// The task must outlive it.
class GlooRoute {
 public:
  GlooRoute(const Task& task, int rank, int size);

  /// For this rank itself, too: both are the same data then.
  GlooTurns::Outgoing to(int other) const;
  GlooTurns::Incoming from(int other) const;

  std::size_t width() const { return width_; }

 private:
  GlooTurns::Outgoing all_of_in() const;
  GlooTurns::Incoming all_of_out() const;
  GlooTurns::Outgoing in_block(int other) const;
  GlooTurns::Incoming out_block(int other) const;

  const Task& task_;
  int rank_;
  std::size_t width_;
  Blocks in_;
  Blocks out_;
};

}  // namespace ddp::internal
