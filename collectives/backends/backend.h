// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/agreement/group_context.h"
#include "collectives/call/async_call.h"
#include "collectives/call/task.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Moves the data of one group, for one rank. There is a class for each way to do that (memory and
/// TCP, MPI, NCCL). Failures are ddp::Error. After a failure, only the destructor may be called.
///
/// Tasks come from one thread at a time, and in the same order on every rank.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Throws ddp::Error of kind usage for a task that this backend cannot do, such as one with
  /// buffers in memory that it does not reach; then run() and begin() are not called for it.
  /// Thread: any.
  virtual void check(const Task& task) const = 0;

  /// Does the task, which has buffers in host memory, after all tasks begun before. Returns when
  /// this rank's part is done.
  virtual void run(const Task& task) = 0;

  /// Moves the message, of a buffer in host memory, if that needs no wait to speak of; else does
  /// nothing and returns false. It never fails. Thread: any.
  virtual bool run_now(const Transfer& /*message*/) { return false; }

  /// Does the task, which has buffers in host memory, if that needs no wait to speak of; else does
  /// nothing and returns false.
  virtual bool run_now(const Task& /*task*/) { return false; }

  /// Waits until a message with this tag has come that no receive has been posted for, and returns
  /// the rank that sent it; nothing after the timeout. Throws ddp::Error: usage (this backend
  /// cannot); what failed the group, and so fails it if a rank is lost or all others have left.
  virtual std::optional<int> probe(int /*tag*/) {
    throw Error(ErrorKind::usage,
                "ddp: only backend cpu waits for a message of any rank: name the rank");
  }

  /// Begins the task. If it fails, the AsyncCall has the error.
  virtual std::shared_ptr<AsyncCall> begin(const Task& task) = 0;

  /// Begins a task with buffers on a device; the caller calls wait() at once. So the task may be in
  /// the caller's stream itself.
  virtual std::shared_ptr<AsyncCall> begin_in_stream(const Task& task) { return begin(task); }

  /// Sets the longest time of each call that begins from now on, for backends that watch it
  /// themselves. Before, it is the context's timeout. Thread: any.
  virtual void set_timeout(std::chrono::milliseconds /*timeout*/) {}

  /// Sets a function for failures that the backend detects outside of its calls. It is called in
  /// any thread and must abort() the backend. Backends that detect none need not call it.
  virtual void watch(const std::function<void(const Error& error)>& /*failed*/) {}

  /// Allocates memory in which the group's calls are fastest, zeroed, for a task of
  /// Operation::allocate: that many bytes, of the GPU or of the host as the task says. Every rank
  /// calls it, after check(). Returns null if this backend has none of its own.
  virtual std::shared_ptr<void> allocate(const Task& /*task*/) { return nullptr; }

  /// Connects parts of the group through its own connections. Every rank calls it, with its part's
  /// context and the part's members as ranks of this group, or null if it is in no part. Returns
  /// the part's backend, which uses `make_host` for buffers in host memory. Returns null if this
  /// rank is in no part, or if parts have to connect as other groups do. Waits for the other ranks.
  virtual std::unique_ptr<Backend> split(
      const GroupContext* /*part*/, const std::vector<int>& /*members*/,
      const std::function<std::unique_ptr<Backend>()>& /*make_host*/) {
    return nullptr;
  }

  /// Connects the rest of the group without the ranks `excluded`, which do not call it. Called if
  /// can_shrink() was true on all others. Returns the rest's backend, as split() does.
  virtual std::unique_ptr<Backend> shrink(
      const GroupContext& /*rest*/, const std::vector<int>& /*excluded*/,
      const std::function<std::unique_ptr<Backend>()>& /*make_host*/) {
    return nullptr;
  }
  virtual bool can_shrink() const { return false; }

  /// Makes all that is under way fail soon, without notifying the other ranks. Thread: any.
  virtual void abort() noexcept = 0;

  /// Finishes the calls that were begun, and notifies the other ranks that no more follow. Waits
  /// until they can get what this rank has sent, not until they have it. If it is called, it is the
  /// last call. A failure does not matter to a rank that leaves.
  virtual void leave() noexcept = 0;
};

/// A call that has failed with `error`.
inline std::shared_ptr<AsyncCall> failed_call(const Error& error) {
  auto call = std::make_shared<Completion>();
  call->fail(error);
  return call;
}

}  // namespace ddp::internal
