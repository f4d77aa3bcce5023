// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/types.h"

namespace ddp::internal {

/// What moves the data of a group of at least two ranks: one class, in one file, for each library
/// that can. Arguments were checked by ProcessGroup. Failures are thrown as ddp::Error; after one,
/// nothing but the destructor is called. One call at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual void broadcast(Buffer buffer, int root) = 0;
  virtual void all_reduce(Buffer buffer, ReduceOp op) = 0;
  virtual void barrier() = 0;

  /// Waits until every rank leaves too; the last call, if it is made at all. Does not throw: who
  /// leaves does not care how.
  virtual void leave() noexcept = 0;
};

}  // namespace ddp::internal
