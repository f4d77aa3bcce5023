// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/backends/group_context.h"
#include "collectives/call/async_call.h"
#include "collectives/call/task.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Moves the data of one group, for one rank: a class for each way to (memory and TCP, MPI, NCCL).
/// Failures are ddp::Error; after one, only the destructor may be called.
///
/// Tasks come from one thread at a time, and in the same order on every rank.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Throws ddp::Error of kind usage for a task that this backend cannot do, such as one with
  /// buffers in memory that it does not reach; run() and begin() are not called for it then.
  /// Thread: any.
  virtual void check(const Task& task) const = 0;

  /// Does the task, which has buffers in host memory, after all that were begun before. Returns
  /// when this rank's part is done.
  virtual void run(const Task& task) = 0;

  /// Moves the message, of a buffer in host memory, if that needs no wait to speak of; else returns
  /// false, and nothing was done. It never fails. Thread: any.
  virtual bool run_now(const Transfer& /*message*/) { return false; }

  /// Does the task, which has buffers in host memory, if that needs no wait to speak of; else
  /// returns false, and nothing was done.
  virtual bool run_now(const Task& /*task*/) { return false; }

  /// Begins the task. If it fails, the AsyncCall has the error.
  virtual std::shared_ptr<AsyncCall> begin(const Task& task) = 0;

  /// begin() of a task with buffers on a device, for which wait() is called at once: it may be in
  /// the caller's stream itself.
  virtual std::shared_ptr<AsyncCall> begin_in_stream(const Task& task) { return begin(task); }

  /// How long each call may take that begins from now on: for backends that see to that themselves.
  /// Until then the context's timeout. Thread: any.
  virtual void set_timeout(std::chrono::milliseconds /*timeout*/) {}

  /// Sets a function for failures that the backend detects outside of its calls. It is called in
  /// any thread and must abort() the backend. Backends that detect none need not call it.
  virtual void watch(const std::function<void(const Error& error)>& /*failed*/) {}

  /// Memory in which the group's calls are fastest, zeroed, for a task of Operation::allocate with
  /// that many bytes: of the GPU, or of the host, as the task says. Every rank calls it. After
  /// check(). Null: this backend has none of its own.
  virtual std::shared_ptr<void> allocate(const Task& /*task*/) { return nullptr; }

  /// Connects parts of the group through its own connections. Every rank calls it: with what its
  /// part is, and the part's members as ranks of this group, or null if it is in none. Returns the
  /// part's backend, which takes what `make_host` returns for buffers in host memory; null: this
  /// rank is in no part, or parts have to connect as other groups do. Waits for the other ranks.
  virtual std::unique_ptr<Backend> split(
      const GroupContext* /*part*/, const std::vector<int>& /*members*/,
      const std::function<std::unique_ptr<Backend>()>& /*make_host*/) {
    return nullptr;
  }

  /// Connects the rest of the group without the ranks `excluded`, which do not call it, when
  /// can_shrink() was true on all others. Returns the rest's backend, as split() does.
  virtual std::unique_ptr<Backend> shrink(
      const GroupContext& /*rest*/, const std::vector<int>& /*excluded*/,
      const std::function<std::unique_ptr<Backend>()>& /*make_host*/) {
    return nullptr;
  }
  virtual bool can_shrink() const { return false; }

  /// Makes all that is under way fail soon, without notifying the other ranks. Thread: any.
  virtual void abort() noexcept = 0;

  /// Waits until every rank leaves the group. The last call, if it is made at all. A failure here
  /// does not matter to the rank that leaves; it may to others that wait for its status.
  virtual std::optional<Error> leave() noexcept = 0;
};

/// A call that has failed with `error`.
inline std::shared_ptr<AsyncCall> failed_call(const Error& error) {
  auto call = std::make_shared<Completion>();
  call->fail(error);
  return call;
}

}  // namespace ddp::internal
