// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "collectives/call/async_call.h"
#include "collectives/call/task.h"
#include "ddp/error.h"

namespace ddp::internal {

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

  /// Begins the task. Its failure is the AsyncCall's.
  virtual std::shared_ptr<AsyncCall> begin(const Task& task) = 0;

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
